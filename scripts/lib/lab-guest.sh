# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Makes the guest: a disk image of a small trixie with CRIU 4.2 and igt-gpu-tools of forky, and the
# kernel with an initramfs that mounts it.

GUEST=$LAB/guest

in_guest_root() { "$TOP/scripts/lib/enter" "$GUEST" env -C / "$@"; }
apt_in_guest() {
  retry 3 in_guest_root env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends "$@"
}

step_guest_base() {
  bootstrap "$GUEST"
  # Packages of later releases are installed only on request (-t). Testing's Release file may have
  # expired.
  cat >"$GUEST/etc/apt/sources.list.d/later.list" <<-END
	deb [check-valid-until=no] $MIRROR forky main
	deb [check-valid-until=no] $MIRROR experimental main
	END
  cat >"$GUEST/etc/apt/preferences.d/later" <<-END
	Package: *
	Pin: release n=forky
	Pin-Priority: 50

	Package: *
	Pin: release a=experimental
	Pin-Priority: 1
	END
  apt_in_guest update
}

# CRIU 4.1 of trixie is linked with libnet1. CRIU of forky depends on a newer one.
step_guest_packages() {
  local system=(bash util-linux mount procps kmod iproute2 iptables strace busybox e2fsprogs)
  local libraries=(libdrm-amdgpu1 libprotobuf-c1 liburing2 libzstd1 liblz4-1 libxxhash0 libfmt10
    libhsa-runtime64-1 rocminfo libnet1)
  in_guest_root dpkg --configure -a
  apt_in_guest install "${system[@]}" "${libraries[@]}"
  apt_in_guest install -t forky criu igt-gpu-tools-tests
}

# crun loads libcriu2 to checkpoint.
step_guest_containers() { apt_in_guest install podman runc crun libcriu2 netavark; }

# Installs every CRIU that loads the plugin in the tests, as /opt/criu-VERSION/criu.
step_guest_criu() {
  local suite version
  rm -rf "$LAB/criu.versions" "$GUEST"/opt/criu-*
  for suite in trixie forky experimental; do
    version=$(in_guest_root apt-cache madison criu | awk -v suite="$suite/main" '
      $0 ~ suite { sub(/-.*/, "", $3); print $3; exit }')
    unpack_criu "$suite" "/opt/criu-$version"
    echo "$version" >>"$LAB/criu.versions"
  done
}

unpack_criu() {
  local suite=$1 to=$2 downloads=/var/tmp/criu
  retry 3 in_guest_root sh -euc 'rm -rf "$1"; mkdir "$1"; cd "$1"; chmod 777 .
    apt-get download "criu/$2" "libcriu-dev/$2" "libcompel1/$2"
    for deb in *.deb; do dpkg-deb -x "$deb" "$3"; done; rm -r "$1"' - "$downloads" "$suite" "$to"
  cat >"$GUEST$to/criu" <<-END
	#!/bin/sh
	export LD_LIBRARY_PATH=$to/usr/lib/x86_64-linux-gnu
	exec $to/usr/sbin/criu "\$@"
	END
  chmod 755 "$GUEST$to/criu"
}

# Copies the headers of each CRIU to the same place in the tool chain root.
step_toolchain_criu() {
  rm -rf "$TOOLCHAIN"/opt/criu-*
  cp -a "$GUEST"/opt/criu-* "$TOOLCHAIN/opt/"
}

# Lists modules of the packaged kernel: file systems, virtio, what CRIU needs, and what amdgpu.ko
# depends on. amdgpu.ko itself comes from our build.
guest_modules() {
  local keep='^kernel/(fs/(ext4|9p|fuse|overlayfs|nls)/|net/(9p|core|ipv4|ipv6|netlink|unix|packet|'
  keep+='netfilter|bridge|sched)/|drivers/virtio/|drivers/block/(virtio_blk|loop|null_blk)|'
  keep+='drivers/char/(virtio_console|hw_random/virtio)|drivers/net/(virtio_net|veth|tun|dummy)|'
  keep+='lib/|crypto/|arch/x86/crypto/|drivers/gpu/drm/amd/amdgpu/amdgpu\.ko)'
  awk -v keep="$keep" '
    { sub(/:/, "", $1) }
    $1 ~ keep { for (i = 1; i <= NF; i++) if (!seen[$i]++ && $i !~ /\/amdgpu\.ko/) print $i }' \
    "$TOOLCHAIN/usr/lib/modules/$KERNEL_RELEASE/modules.dep"
}

# copy_modules ROOT < list: copies modules, unpacks them, because an emulated guest is slow, and
# indexes them.
copy_modules() {
  local root=$1 from=$TOOLCHAIN/usr/lib/modules/$KERNEL_RELEASE to path
  to=$root/usr/lib/modules/$KERNEL_RELEASE
  rm -rf "$to"
  while read -r path; do
    install -D -m 644 "$from/$path" "$to/$path"
  done
  in_toolchain sh -euc 'find "$1" -name "*.ko.xz" -print0 | xargs -0 -r xz -d' - "$to"
  cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
  in_toolchain depmod -b "$root" "$KERNEL_RELEASE"
}

# Starts with the modules of the second base. The disk image's step adds those of the first.
step_guest_modules_lts() {
  rm -rf "$GUEST/usr/lib/modules"
  KERNEL_RELEASE=$(<"$LAB/kernel-release-$LTS_BASE")
  guest_modules | copy_modules "$GUEST"
}

# Space for what tests write. Each boot starts with the same snapshot of the root disk.
readonly GUEST_FREE_MB=512

# Copies the distribution's driver, for tests of what works with it. It is stripped of debug
# information and trace points, which take long to load in an emulated machine.
step_stock_module() {
  local module=$LAB/stock/amdgpu.ko
  install -d "$LAB/stock"
  in_toolchain xz -dc "/usr/lib/modules/$KERNEL_RELEASE/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.xz" \
    >"$module.new"
  in_toolchain strip --strip-debug "$module.new"
  in_toolchain objcopy -R __mcount_loc -R .rela__mcount_loc "$module.new"
  mv "$module.new" "$module"
}

step_guest_image() {
  guest_modules | copy_modules "$GUEST"
  install -d "$GUEST/payload" "$GUEST/scratch"
  echo lab >"$GUEST/etc/hostname"
  rm -f "$LAB/guest.ext4.new"
  unshare --mount bash -euc '
    . "$TOP/scripts/lib/common.sh"
    for hidden in var/lib/apt var/cache usr/share/doc usr/share/man usr/share/locale; do
      mount -t tmpfs none "$1/$hidden"
    done
    used=$(du -smx "$1" | cut -f1)
    IN_LAB="" "$TOP/scripts/in-lab" mke2fs -q -t ext4 -L lab-root -m 0 -O ^has_journal -d "$1" \
      "$2.new" $((used + used / 8 + $3))M' - "$GUEST" "$LAB/guest.ext4" "$GUEST_FREE_MB"
  mv "$LAB/guest.ext4.new" "$LAB/guest.ext4"
}

# make_boot DIRECTORY: replaces kernel and initramfs with those of $KERNEL_RELEASE.
make_boot() {
  local boot=$1 tree=$1.new/initrd.d module
  rm -rf "$boot.new" "$boot.old"
  install -d "$tree"/{bin,dev,proc,sys,new,usr/lib}
  ln -s usr/lib "$tree/lib"
  cp "$TOOLCHAIN/usr/bin/busybox" "$tree/bin/busybox"
  install -m 755 "$TOP/scripts/lib/guest-initrd" "$tree/init"
  for module in virtio_pci virtio_blk virtio_console ext4 crc32c_generic; do
    awk -v want="/$module.ko" '{ sub(/:/, "", $1) }
      index($1, want) { for (i = 1; i <= NF; i++) print $i }' \
      "$TOOLCHAIN/usr/lib/modules/$KERNEL_RELEASE/modules.dep"
  done | sort -u | copy_modules "$tree"
  in_toolchain sh -euc 'cd "$1"; find . | cpio --quiet -o -H newc -R 0:0 >../initrd' - "$tree"
  cp "$TOOLCHAIN/boot/vmlinuz-$KERNEL_RELEASE" "$boot.new/vmlinuz"
  rm -rf "$tree"
  [[ ! -d $boot ]] || mv "$boot" "$boot.old"
  mv "$boot.new" "$boot"
  rm -rf "$boot.old"
}

step_guest_boot() { make_boot "$LAB/boot"; }

step_guest_boot_lts() {
  KERNEL_RELEASE=$(<"$LAB/kernel-release-$LTS_BASE")
  make_boot "$LAB/boot-$LTS_BASE"
}
