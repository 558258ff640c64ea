# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The driver of a later kernel, for the tests of versions: the stage of a base with the patches of
# kernel/tests/next. It is made of copies, sources by links and objects with their times, so that
# only what the patches change is compiled.

# What the stage depends on: our files and hooks in that of the base, and the patches.
next_stage_key() {
  cat "$TOP/build/stage/$1/drivers/gpu/drm/amd/amd"{gpu,kfd}/*criu* \
    "$TOP/kernel/base/$1/hooks"/*.patch "$TOP/kernel/tests/next"/*.patch |
    sha256sum | cut -d' ' -f1
}

# For the rest of a subshell: nobody builds from it.
with_stage_next() {
  with_lock "$(stage_lock "$1-next")" "a build of base $1-next is at work; waiting for it"
}

next_stage() {
  local base=$1 next=$TOP/build/stage/$1-next patch
  rm -rf "$next"
  cp -al "$TOP/build/stage/$base" "$next"
  for patch in "$TOP/kernel/tests/next"/*.patch; do
    patch -d "$next" -p1 --no-backup-if-mismatch -s <"$patch" ||
      die "${patch#"$TOP/"} does not apply any more: make it again for what has changed"
  done
}

# Commands and dependencies are by path, and the stage has another one. The objects may be younger
# than the stage, and are of the sources that the patches have not changed yet.
next_objects() {
  local base=$1 original=$2 next=$TOP/build/kbuild/$2-next
  rm -rf "$next"
  cp -a "$TOP/build/kbuild/$original" "$next"
  mv "$next/build/stage/$base" "$next/build/stage/$base-next"
  find "$next" -type f \( -name '.*.cmd' -o -name '*.mod' -o -name '*.order' \) -print0 |
    xargs -0 sed -i "s,build/stage/$base/,build/stage/$base-next/,g"
  sed -i "s,build/kbuild/$original\\b,build/kbuild/$original-next,g" "$next/Makefile"
  sed -n 's,^+++ b/\([^[:space:]]*\).*,\1,p' "$TOP/kernel/tests/next"/*.patch | sort -u |
    (with_stage_next "$base" && cd "$TOP/build/stage/$base-next" && xargs touch)
}

# make_anew STAMP KEY COMMAND...: unless the stamp has that key.
make_anew() {
  local stamp=$1 key=$2
  shift 2
  [[ ! -f $stamp || $(<"$stamp") != "$key" ]] || return 0
  rm -f "$stamp"
  "$@"
  printf '%s\n' "$key" >"$stamp"
}

# make_next BASE ORIGINAL: stage BASE-next as old as that of the base, and objects ORIGINAL-next, as
# old as those of a module that was made from the base's stage.
make_next() {
  local base=$1 original=$2 key built
  built=$TOP/build/kbuild/$original/build/stage/$base/drivers/gpu/drm/amd/amdgpu/amdgpu.ko
  key=$(next_stage_key "$base")
  (
    with_stage_next "$base"
    make_anew "$TOP/build/stage/$base-next.made-from" "$key" next_stage "$base"
  )
  key+=$(sha256sum <"$built")
  make_anew "$TOP/build/kbuild/$original-next/.made-from" "$key" next_objects "$base" "$original"
}
