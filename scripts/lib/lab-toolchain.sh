# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Makes the tool chain root: Debian trixie, with kernel and QEMU from trixie-backports. It has nothing
# of a later release, whose libraries would replace trixie's.

TOOLCHAIN=$LAB/root
# The newest base and the second one; they may be the same.
read -r KERNEL_BASE LTS_BASE <<<"${LAB_BASES:-7.3 6.12}"
LTS_BASE=${LTS_BASE:-$KERNEL_BASE}

in_toolchain() { IN_LAB='' "$TOP/scripts/in-lab" "$@"; }
apt_in_toolchain() {
  retry 3 in_toolchain env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends "$@"
}

# bootstrap_once ROOT OPTIONS...: starts with an empty directory.
bootstrap_once() {
  local root=$1
  shift
  rm -rf --one-file-system "$root"
  mmdebstrap --mode=root --variant=apt --include=ca-certificates --dpkgopt=force-unsafe-io \
    --aptopt='Apt::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
    "$@" trixie "$root" "deb $MIRROR trixie main"
}

# bootstrap ROOT: replaces ROOT with a minimal trixie with apt. dpkg does not call fsync for each file:
# after a power failure the lab is made again.
bootstrap() {
  local root=$1 option options=()
  while read -r option; do
    options+=(--aptopt="$option")
  done < <(apt_network_options)
  rm -rf --one-file-system "$root"
  retry 3 bootstrap_once "$root.new" "${options[@]}"
  cp -L /etc/resolv.conf "$root.new/etc/resolv.conf"
  # A mirror or proxy may have a certificate that only this machine's administrator vouches for.
  if [[ -f /etc/ssl/certs/ca-certificates.crt ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$root.new/etc/ssl/certs/ca-certificates.crt"
  fi
  mv "$root.new" "$root"
}

step_toolchain_base() {
  bootstrap "$TOOLCHAIN"
  echo "deb $MIRROR trixie-backports main" >"$TOOLCHAIN/etc/apt/sources.list.d/backports.list"
  apt_in_toolchain update
}

# The kernel package depends on an initramfs generator. This package provides one without contents,
# because the lab has its own initramfs.
install_initramfs_stand_in() {
  local dir=$TOOLCHAIN/var/tmp/no-initramfs
  mkdir -p "$dir/DEBIAN"
  cat >"$dir/DEBIAN/control" <<-END
	Package: lab-no-initramfs
	Version: 1
	Architecture: all
	Maintainer: amdgpu-criu lab <root@localhost>
	Provides: linux-initramfs-tool
	Description: stands in for an initramfs generator
	END
  in_toolchain dpkg-deb --root-owner-group --build /var/tmp/no-initramfs /var/tmp/no-initramfs.deb
  in_toolchain dpkg -i /var/tmp/no-initramfs.deb
}

step_toolchain_kernel() {
  local kernel release version
  in_toolchain dpkg --configure -a
  apt_in_toolchain update # the archive may have moved on since the step before
  install_initramfs_stand_in
  kernel=$(newest_kernel)
  read -r release version <<<"$kernel"
  echo "kernel: $release $version"
  apt_in_toolchain install -t trixie-backports qemu-system-x86 \
    "linux-image-$release=$version" "linux-headers-$release=$version" \
    "linux-source-$KERNEL_BASE=$version"
  echo "$release" >"$LAB/kernel-release"
}

step_toolchain_tools() {
  local compilers=(gcc g++ clang clang-tools clang-tidy clang-format lld llvm libclang-rt-dev sparse)
  local builders=(make cmake ninja-build ccache pkgconf bc flex bison patch git rsync perl python3
    protobuf-c-compiler)
  local libraries=(libgtest-dev libgmock-dev libdrm-dev libdrm-amdgpu1 libprotobuf-c-dev liburing-dev
    libzstd-dev liblz4-dev libxxhash-dev libcli11-dev libfmt-dev libbenchmark-dev libssl-dev libsodium-dev
    librust-blake3-dev nlohmann-json3-dev libhsa-runtime-dev libhsa-runtime64-1)
  local images=(busybox-static e2fsprogs cpio xz-utils zstd kmod)
  local rest=(shellcheck pyflakes3 python3-ply mandoc strace file diffutils procps iproute2
    gnuplot-nox)
  in_toolchain dpkg --configure -a
  apt_in_toolchain install "${compilers[@]}" "${builders[@]}" "${libraries[@]}" "${images[@]}" \
    "${rest[@]}"
  in_toolchain apt-get clean
}

# Unpacks the kernel source that the driver build, checkpatch and the selftests need.
step_kernel_source() {
  local source=$TOOLCHAIN/usr/src/linux-source-$KERNEL_BASE
  rm -rf --one-file-system "$source" "$source.new"
  mkdir -p "$source.new"
  in_toolchain tar --use-compress-program='xz -T0' --strip-components=1 \
    -C "/usr/src/linux-source-$KERNEL_BASE.new" -xf "/usr/src/linux-source-$KERNEL_BASE.tar.xz" \
    --exclude='linux-source-*/arch/[!x]*' --exclude='linux-source-*/arch/xtensa' \
    --exclude='linux-source-*/sound' --exclude='linux-source-*/drivers/net' \
    --exclude='linux-source-*/drivers/media' --exclude='linux-source-*/drivers/staging' \
    --exclude='linux-source-*/drivers/scsi'
  mv "$source.new" "$source"
}

# Installs the kernel of the second base. Each base has a file with its release.
step_toolchain_lts() {
  local kernel release version
  in_toolchain dpkg --configure -a
  kernel=$(newest_kernel "$LTS_BASE")
  read -r release version <<<"$kernel"
  echo "kernel: $release $version"
  apt_in_toolchain install "linux-image-$release=$version" "linux-headers-$release=$version" \
    "linux-source-$LTS_BASE=$version"
  in_toolchain apt-get clean
  echo "$release" >"$LAB/kernel-release-$LTS_BASE"
  cp "$LAB/kernel-release" "$LAB/kernel-release-$KERNEL_BASE"
}

step_kernel_source_lts() { KERNEL_BASE=$LTS_BASE step_kernel_source; }
