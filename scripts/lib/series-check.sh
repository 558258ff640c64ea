# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Checks of a series that scripts/series has written: $MAILS, made in $WORK/tree.

# Whoever makes the series again gets the same mails.
series_same_bytes() {
  make_mails "$WORK/mails.again" "$WORK/tree.again"
  diff -r "$MAILS" "$WORK/mails.again"
}

# The files that the series changes, as they are in the packed source; from BASE_SOURCE where it
# was not unpacked from a package.
unpack_pristine() {
  local archive=$BASE_SOURCE.tar.xz
  mapfile -t changed <"$WORK/changed-files"
  mkdir -p "$WORK/fresh"
  if [[ -n ${KSRC-} || ! -f $archive ]]; then
    tar -C "$BASE_SOURCE" -c "${changed[@]}" | tar -C "$WORK/fresh" -x
    return
  fi
  local cache=$WORK/pristine key
  key=$({ stat -c '%s %Y' "$archive"; cat "$WORK/changed-files"; } | sha256sum)
  if [[ ! -f $cache/.key || $(<"$cache/.key") != "$key" ]]; then
    rm -rf "$cache"
    mkdir -p "$cache"
    tar -C "$cache" --strip-components=1 -xJf "$archive" "${changed[@]/#/$BASE_SOURCE_PACKAGE/}"
    printf '%s\n' "$key" >"$cache/.key"
  fi
  tar -C "$cache" -c "${changed[@]}" | tar -C "$WORK/fresh" -x
}

fresh_git() {
  GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
    git -C "$WORK/fresh" -c user.name=series -c user.email=series@localhost -c gc.auto=0 "$@"
}

# git am of all mails, in a fresh tree.
series_applies() {
  rm -rf "$WORK/fresh"
  unpack_pristine
  fresh_git init -q -b master
  fresh_git add -A -f
  fresh_git commit -q -m pristine
  mapfile -t list < <(find "$MAILS" -name '*.patch' ! -name '0000-*' | sort)
  fresh_git am --whitespace=error-all "${list[@]}"
}

# After that the tree is the stage, byte for byte, and has our other files as they are.
series_staged() {
  local bad=0 path source
  while IFS=$'\t' read -r path source; do
    cmp "$source" "$WORK/fresh/$path" || bad=1
  done <"$WORK/new-files"
  staged_paths | LC_ALL=C sort >"$WORK/staged-files"
  while read -r path; do
    cmp "$OURS/build/stage/$BASE/$path" "$WORK/fresh/$path" || bad=1
  done <"$WORK/staged-files"
  (cd "$WORK/fresh" && find drivers include -type f | LC_ALL=C sort) |
    diff "$WORK/staged-files" - || bad=1
  return "$bad"
}

# Files of the stage that the base has not, or has otherwise.
staged_paths() {
  local stage=$OURS/build/stage/$BASE path
  { diff -rq "$BASE_SOURCE/drivers/gpu/drm/amd" "$stage/drivers/gpu/drm/amd" || true; } |
    sed -n "s,^Files .* and $stage/\(.*\) differ\$,\1,p; s,^Only in $stage/\(.*\): ,\1/,p
      s,^Only in $BASE_SOURCE/.*,missing in the stage: &,p"
  (cd "$stage" && find include -type f) | while read -r path; do
    cmp -s "$BASE_SOURCE/$path" "$stage/$path" || printf '%s\n' "$path"
  done
}

# checkpatch --strict of each mail; what it says and is no fault is in checkpatch.known.
series_checkpatch() {
  local mail rc said=$WORK/checkpatch like known
  : >"$said"
  for mail in "$MAILS"/*.patch; do
    [[ $mail != */0000-* ]] || continue
    rc=0
    perl "$BASE_SOURCE/scripts/checkpatch.pl" --root="$BASE_SOURCE" --strict --terse --no-summary \
      --show-types "$mail" >>"$said" 2>"$said.errors" || rc=$?
    ((rc <= 1)) || {
      cat "$said.errors"
      return 1
    }
  done
  like=$(awk '$1 == "like" { print $2 }' "$SERIES/order")
  known=$OURS/kernel/base/${like:-$BASE}/series/checkpatch.known
  "$TOP/scripts/lib/series-known.py" "$known" "$WORK/patches" "$said"
}

# kernel-doc of every file of ours, warnings being errors.
series_kernel_doc() {
  local list script=$BASE_SOURCE/scripts/kernel-doc language=python3
  mapfile -t list < <(cut -f1 "$WORK/new-files" | grep '^\(drivers\|include\)/')
  ! head -n 1 "$script" | grep -q perl || language=perl
  cd "$WORK/fresh" || return
  "$language" "$script" -none -Wall -Werror "${list[@]}"
}

# The selftests build in a kernel tree, with lib.mk, as ordinary ones do.
series_selftests() {
  local tests=tools/testing/selftests
  cp -r "$BASE_SOURCE/$tests"/{lib.mk,kselftest.h,kselftest_harness.h,kselftest} "$WORK/fresh/$tests/"
  mkdir -p "$WORK/fresh/usr/include/drm" "$WORK/selftests"
  cp "$WORK/fresh/include/uapi/drm/amdgpu_criu.h" "$WORK/fresh/usr/include/drm/"
  make -C "$WORK/fresh/$tests/amdgpu_criu" -j"$(nproc)" OUTPUT="$WORK/selftests" USERCFLAGS=-Werror
}
