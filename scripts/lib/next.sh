# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The driver of a later kernel, for the tests of versions: the stage of a base with the patches of
# kernel/tests/next. It is made of copies, sources by links and objects with their times, so that
# only what the patches change is compiled.

# What the copies depend on: all that the base's module is made of, and the patches.
next_key() {
  local base=$1
  cat "$TOP/build/stage/$base/drivers/gpu/drm/amd/amd"{gpu,kfd}/*criu* "$TOP/kernel/tests/next"/*.patch \
    "$TOP/build/kbuild/$base/build/stage/$base/drivers/gpu/drm/amd/amdgpu/amdgpu.ko" |
    sha256sum | cut -d' ' -f1
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

# Commands and dependencies are by path, and the stage has another one.
next_objects() {
  local base=$1 next=$TOP/build/kbuild/$1-next
  rm -rf "$next"
  cp -a "$TOP/build/kbuild/$base" "$next"
  mv "$next/build/stage/$base" "$next/build/stage/$base-next"
  find "$next" -type f \( -name '.*.cmd' -o -name '*.mod' -o -name '*.order' \) -print0 |
    xargs -0 sed -i "s,build/stage/$base/,build/stage/$base-next/,g"
  sed -i "s,build/kbuild/$base\\b,build/kbuild/$base-next,g" "$next/Makefile"
}

# make_next BASE: stage and objects of BASE-next, as old as those of BASE.
make_next() {
  local base=$1 key stamp=$TOP/build/kbuild/$1-next/.made-from
  key=$(next_key "$base")
  [[ ! -f $stamp || $(<"$stamp") != "$key" ]] || return 0
  rm -f "$stamp"
  next_stage "$base"
  next_objects "$base"
  printf '%s\n' "$key" >"$stamp"
}
