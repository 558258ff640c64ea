# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Checks of a series that scripts/series has written: $MAILS/PART, made in $WORK/tree.

# The parts, in order.
parts() { awk '!seen[$1]++ { print $1 }' "$WORK/patches"; }

fixes_parts() { parts | grep -- '-fixes$'; }

# For each fix, the numbers of the patches that it needs, then its own; 0 is the first of the series.
numbers_alone() {
  awk '{ number[$2] = NR - 1 }
    $1 ~ /-fixes$/ { for (i = 3; i <= NF; i++) printf "%s ", number[$i]; print NR - 1 }' "$WORK/patches"
}

# mails_of PART: its patches, in order, without the cover letter.
mails_of() { find "$MAILS/$1" -name '*.patch' ! -name '0000-*' | sort; }

# A mail that a maintainer can read: at most 1000 lines and 60 kB. A part has at most 20 of them.
series_mail_sizes() {
  local part mail bad=0 count lines bytes
  for part in $(parts); do
    count=$(mails_of "$part" | wc -l)
    ((count <= 20)) || {
      echo "$part: $count mails"
      bad=1
    }
    while read -r mail; do
      read -r lines bytes < <(wc -lc <"$mail")
      ((lines <= 1000 && bytes <= 60000)) || {
        echo "${mail#"$MAILS/"}: $lines lines, $bytes bytes"
        bad=1
      }
    done < <(mails_of "$part")
  done
  return "$bad"
}

# Making the series again gives the same mails.
series_same_bytes() {
  make_mails "$WORK/mails.again" "$WORK/tree.again"
  diff -r "$MAILS" "$WORK/mails.again"
}

# Unpacks the files that the series changes from the source package, or copies them from BASE_SOURCE
# if there is no package.
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

# Applies all mails with git am in a fresh tree.
series_applies() {
  local part list
  rm -rf "$WORK/fresh"
  unpack_pristine
  fresh_git init -q -b master
  fresh_git add -A -f
  fresh_git commit -q -m pristine
  fresh_git tag pristine
  for part in $(parts); do
    mapfile -t list < <(mails_of "$part")
    fresh_git am --whitespace=error-all "${list[@]}" || return
  done
}

# Each fix applies to the pristine tree without the others. Leaves the tree as it was.
series_alone() {
  local part fixes numbers number bad=0
  mapfile -t fixes < <(for part in $(fixes_parts); do mails_of "$part"; done)
  fresh_git checkout -q --detach pristine
  while read -ra numbers; do
    fresh_git reset -q --hard pristine
    for number in "${numbers[@]}"; do
      fresh_git am --whitespace=error-all "${fixes[number]}" || {
        fresh_git am --abort
        bad=1
      }
    done
  done < <(numbers_alone)
  fresh_git checkout -q -f master
  return "$bad"
}

# The tree with all patches equals the stage, byte for byte, and has our other files unchanged.
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

# Lists files of the stage that are new or differ from the base.
staged_paths() {
  local stage=$OURS/build/stage/$BASE path
  { diff -rq "$BASE_SOURCE/drivers/gpu/drm/amd" "$stage/drivers/gpu/drm/amd" || true; } |
    sed -n "s,^Files .* and $stage/\(.*\) differ\$,\1,p; s,^Only in $stage/\(.*\): ,\1/,p
      s,^Only in $BASE_SOURCE/.*,missing in the stage: &,p"
  (cd "$stage" && find include -type f) | while read -r path; do
    cmp -s "$BASE_SOURCE/$path" "$stage/$path" || printf '%s\n' "$path"
  done
}

# Runs checkpatch --strict on each mail. checkpatch.known lists reports that are not faults.
series_checkpatch() {
  local part mail rc said=$WORK/checkpatch like known
  : >"$said"
  for mail in $(parts | while read -r part; do mails_of "$part"; done); do
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

# Runs kernel-doc on every file of ours; a warning is an error.
series_kernel_doc() {
  local list script=$BASE_SOURCE/scripts/kernel-doc language=python3
  mapfile -t list < <(cut -f1 "$WORK/new-files" | grep '^\(drivers\|include\)/')
  ! head -n 1 "$script" | grep -q perl || language=perl
  cd "$WORK/fresh" || return
  "$language" "$script" -none -Wall -Werror "${list[@]}"
}

# The selftests build in a kernel tree with lib.mk.
series_selftests() {
  local tests=tools/testing/selftests
  cp -r "$BASE_SOURCE/$tests"/{lib.mk,kselftest.h,kselftest_harness.h,kselftest} "$WORK/fresh/$tests/"
  mkdir -p "$WORK/fresh/usr/include/drm" "$WORK/selftests"
  cp "$WORK/fresh/include/uapi/drm/amdgpu_criu.h" "$WORK/fresh/usr/include/drm/"
  make -C "$WORK/fresh/$tests/amdgpu_criu" -j"$(nproc)" OUTPUT="$WORK/selftests" USERCFLAGS=-Werror
}
