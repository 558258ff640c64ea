# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Builds the driver after each patch of a series: it compiles and links, and files that the patch
# changes have no W=1 warning that the base does not have. There are one stage and two build trees, so
# each patch compiles only what it changes. Files that include a changed header (for amdgpu.h, the
# whole driver) are compiled after the last patch.

# kbuild_series BUILD-TREE MAKE-ARGUMENT...
kbuild_series() {
  local objects=$TOP/build/kbuild/series-$BASE-$1
  shift
  mkdir -p "$objects"
  kbuild "$BASE" "${BUILD_STAGE#"$TOP/"}" "$objects" "$@"
}

# Copies only what a patch changes or what is compiled here.
make_build_stage() {
  local amd=drivers/gpu/drm/amd part
  if [[ ! -f $BUILD_STAGE/.complete ]]; then
    rm -rf "$BUILD_STAGE"
    mkdir -p "$BUILD_STAGE/$amd" "$BUILD_STAGE/include/drm" "$BUILD_STAGE/include/uapi/drm"
    for part in "$BASE_SOURCE/$amd"/*; do
      case ${part##*/} in
      include | display) ln -s "$part" "$BUILD_STAGE/$amd/" ;;
      *) cp -a "$part" "$BUILD_STAGE/$amd/" ;;
      esac
    done
    touch "$BUILD_STAGE/.complete"
  fi
  bring_to base "$(cut -f1 "$WORK/new-files") $(<"$WORK/changed-files")"
}

series_git() {
  git -C "$WORK/tree" -c safe.directory="$WORK/tree" -c user.name=series \
    -c user.email=series@localhost "$@"
}

# bring_to COMMIT PATHS: copies these paths from the commit to the stage.
bring_to() {
  local path
  for path in $2; do
    [[ $path == drivers/* || $path == include/* ]] || continue
    if ! series_git cat-file -e "$1:$path" 2>/dev/null; then
      rm -f "$BUILD_STAGE/$path"
      continue
    fi
    series_git show "$1:$path" >"$WORK/one-file"
    ! cmp -s "$WORK/one-file" "$BUILD_STAGE/$path" || continue
    install -D -m 644 "$WORK/one-file" "$BUILD_STAGE/$path"
    [[ $path == *.h ]] || continue
    touch -d @0 "$BUILD_STAGE/$path"
    # If the build uses a copy of the stage, only newer files are copied.
    rm -f "$TOP/build/kbuild/series-$BASE-"{link,w1}"/${BUILD_STAGE#"$TOP/"}/$path"
  done
}

# Compiles files that include a changed header.
build_users_of_headers() {
  local path
  while read -r path; do
    [[ $path != *.h || ! -f $BUILD_STAGE/$path ]] || touch "$BUILD_STAGE/$path"
  done < <(tr ' ' '\n' <"$WORK/changed-files")
  kbuild_series link >"$WORK/link.log" 2>&1 || {
    cat "$WORK/link.log"
    return 1
  }
}

# object_targets PATHS: prints the objects of those paths that are sources and that were just built.
# Files that the kernel's configuration excludes (kfd_svm.c without HSA_AMD_SVM) may not compile.
object_targets() {
  local path built=$TOP/build/kbuild/series-$BASE-link/${BUILD_STAGE#"$TOP/"}
  for path in $1; do
    [[ $path == drivers/gpu/drm/amd/*.c ]] || continue
    if [[ ! -f $built/${path%.c}.o ]]; then
      echo "not in this configuration: $path" >&2
      continue
    fi
    path=${path#drivers/gpu/drm/amd/}
    # All of the driver is built by the makefile in amdgpu/.
    [[ $path == amdgpu/* ]] && path=${path#amdgpu/} || path=../$path
    printf '%s\n' "${BUILD_STAGE#"$TOP/"}/drivers/gpu/drm/amd/amdgpu/${path%.c}.o"
  done
}

# w1_warnings PATHS: prints each W=1 warning once, without line numbers.
w1_warnings() {
  local targets
  mapfile -t targets < <(object_targets "$1")
  ((${#targets[@]} > 0)) || return 0
  kbuild_series w1 W=1 "${targets[@]}" >"$WORK/w1.log" 2>&1 || {
    cat "$WORK/w1.log" >&2
    return 1
  }
  sed -n 's/^\([^ ]*\.[ch]\):[0-9:]* warning: /\1: /p' "$WORK/w1.log" | sort -u
}

build_patch() {
  local commit=$1 since=${2:-$1^} paths
  paths=$(series_git diff-tree -r --name-only "$since" "$commit")
  bring_to "$commit" "$paths"
  kbuild_series link >"$WORK/link.log" 2>&1 || {
    cat "$WORK/link.log"
    return 1
  }
  w1_warnings "$paths" >"$WORK/warnings" || return 1
  ! comm -23 "$WORK/warnings" "$WORK/warnings.base" | grep .
}

build_base() {
  BUILD_STAGE=$WORK/stage
  make_build_stage
  kbuild_series link
  w1_warnings "$(<"$WORK/changed-files")" >"$WORK/warnings.base" || return 1
}

# Each fix, without the others.
series_build_alone() {
  local commits commit numbers number alone bad=0
  build_base || return
  mapfile -t commits < <(series_git rev-list --reverse base..series)
  while read -ra numbers; do
    series_git checkout -q --detach base
    for number in "${numbers[@]}"; do
      commit=${commits[number]}
      series_git cherry-pick "$commit" >/dev/null || return
    done
    alone=$(series_git rev-parse HEAD)
    if build_patch "$alone" base; then
      echo "ok: $(series_git log -1 --format=%s "$commit")"
    else
      echo "not ok: $(series_git log -1 --format=%s "$commit")"
      bad=1
    fi
    bring_to base "$(series_git diff-tree -r --name-only base "$alone")"
  done < <(numbers_alone)
  series_git checkout -q series
  return "$bad"
}

series_build() {
  local commit bad=0
  build_base || return
  echo "base: $(wc -l <"$WORK/warnings.base") warnings in the files that are changed"
  while read -r commit; do
    if build_patch "$commit"; then
      echo "ok: $(series_git log -1 --format=%s "$commit")"
    else
      echo "not ok: $(series_git log -1 --format=%s "$commit")"
      bad=1
    fi
  done < <(series_git rev-list --reverse base..series)
  if build_users_of_headers; then
    echo "ok: all that includes a changed header"
  else
    echo "not ok: all that includes a changed header"
    bad=1
  fi
  return "$bad"
}
