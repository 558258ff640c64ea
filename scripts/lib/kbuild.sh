# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Builds of the driver out of tree, against the packaged headers of a base's kernel.

# kernel_release BASE: release of the lab's kernel of that base.
kernel_release() { cat "$LAB/kernel-release-$1"; }

sources_below() { (cd "$1" && find . -name '*.[ch]' ! -name '*.mod.c' | LC_ALL=C sort); }

# Kernels before 6.13 do not know MO=: objects are made beside their sources, so these are copied.
# Times stay, and only what is newer is copied: make sees what it would see in the stage itself.
copy_stage() {
  local stage=$1 objects=$2
  mkdir -p "$objects/$stage"
  if [[ -f $TOP/$stage/.base ]] && ! cmp -s "$TOP/$stage/.base" "$objects/$stage/.base"; then
    rm -rf "${objects:?}/$stage"
    mkdir -p "$objects/$stage"
  fi
  cp -au "$TOP/$stage/." "$objects/$stage/"
  LC_ALL=C comm -13 <(sources_below "$TOP/$stage") <(sources_below "$objects/$stage") |
    (cd "$objects/$stage" && xargs -r rm)
  ln -sfn "$TOP/Kbuild" "$objects/Kbuild"
}

# kbuild BASE STAGE OBJECTS MAKE-ARGUMENT...: STAGE is a path below the checkout; what is made of
# STAGE/FILE is at OBJECTS/STAGE/FILE.
kbuild() {
  local base=$1 stage=$2 objects=$3 kdir=${KDIR-} where
  shift 3
  kdir=${kdir:-/usr/src/linux-headers-$(kernel_release "$base")}
  if [[ $(printf '%s\n' 6.13 "$base" | sort -V | head -n 1) == 6.13 ]]; then
    where=(M="$TOP" MO="$objects")
  else
    copy_stage "$stage" "$objects" || return
    where=(M="$objects" criu-top="$TOP")
  fi
  # The variables given here take the place of Kbuild's own.
  make -C "$kdir" "${where[@]}" criu-stage="$stage" STAGED=1 --no-print-directory \
    -j"$(nproc)" "$@"
}
