# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Checks all parts of the lab and names what is missing.

missing() {
  say "missing: $*"
  MISSING=$((MISSING + 1))
}

check_toolchain() {
  local name
  local tools=(gcc g++ clang clang++ clang-tidy clang-format lld sparse make cmake ninja ccache
    pkg-config bc flex bison patch git rsync perl python3 protoc-c xz zstd cpio mke2fs depmod
    shellcheck pyflakes3 mandoc strace gnuplot qemu-system-x86_64)
  local libraries=(libdrm libdrm_amdgpu libprotobuf-c liburing libzstd liblz4 libxxhash CLI11 fmt
    benchmark gtest gmock libssl libsodium nlohmann_json)
  [[ -d $TOOLCHAIN/usr ]] || {
    missing "the tool chain root"
    return
  }
  while read -r name; do
    missing "$name (tool chain)"
  done < <(in_toolchain sh -c 'for t; do command -v "$t" >/dev/null || echo "$t"; done' - "${tools[@]}")
  while read -r name; do
    missing "library $name (tool chain)"
  done < <(in_toolchain sh -c 'for l; do pkg-config --exists "$l" || echo "$l"; done' - "${libraries[@]}")
  check_sources
  check_qemu
}

release_of() { cat "$LAB/kernel-release-$1" 2>/dev/null || echo "not-installed-$1"; }

check_sources() {
  local base release path
  for base in "$KERNEL_BASE" "$LTS_BASE"; do
    release=$(release_of "$base")
    for path in "usr/src/linux-source-$base"/{drivers/gpu/drm/amd/amdgpu/Makefile,scripts/checkpatch.pl} \
      "usr/src/linux-source-$base/tools/testing/selftests/kselftest_harness.h" \
      "usr/src/linux-headers-$release/Makefile" "boot/vmlinuz-$release" \
      "usr/lib/modules/$release/modules.dep"; do
      [[ -e $TOOLCHAIN/$path ]] || missing "$path (tool chain)"
    done
  done
}

check_qemu() {
  in_toolchain qemu-system-x86_64 -device help 2>/dev/null | grep -q '"vfio-user-pci"' ||
    missing "vfio-user-pci in QEMU"
}

readonly IGT_TESTS=(amd_bo amd_vm amd_userptr_invalidation amd_cp_dma_misc amd_deadlock
  amd_fuzzing_kfd amd_basic)

check_guest() {
  local name version
  [[ -d $GUEST/usr ]] || {
    missing "the guest's root"
    return
  }
  for name in criu ip iptables ps kmod strace rocminfo mount busybox mke2fs podman runc crun; do
    in_guest_root sh -c 'command -v "$1" >/dev/null' - "$name" || missing "$name (guest)"
  done
  for name in "${IGT_TESTS[@]}"; do
    [[ -x $GUEST/usr/libexec/igt-gpu-tools/$name || -x $GUEST/usr/libexec/igt-gpu-tools/amdgpu/$name ]] ||
      missing "igt test $name (guest)"
  done
  for version in 4.1 4.2 4.3; do
    compgen -G "$GUEST/opt/criu-$version*/criu" >/dev/null || missing "CRIU $version (guest)"
  done
  for name in "$GUEST"/opt/criu-*; do
    in_guest_root "/opt/${name##*/}/criu" --version >/dev/null || missing "a working ${name##*/}"
  done
  for version in "$KERNEL_BASE" "$LTS_BASE"; do
    for name in virtio_net 9p overlay fuse veth unix_diag amdxcp ttm gpu-sched drm_exec; do
      grep -qs "/$name\.ko" "$GUEST/usr/lib/modules/$(release_of "$version")"/modules.{dep,builtin} ||
        missing "module $name of kernel $version (guest)"
    done
  done
}

check_images() {
  local label name boot
  for name in guest.ext4 {boot,"boot-$LTS_BASE"}/{vmlinuz,initrd} VERSIONS; do
    [[ -s $LAB/$name ]] || missing "build/lab/$name"
  done
  [[ ! -s $LAB/guest.ext4 ]] || label=$(in_toolchain e2label "$LAB/guest.ext4")
  [[ ${label-} == lab-root ]] || missing "the label lab-root on build/lab/guest.ext4"
  for boot in boot "boot-$LTS_BASE"; do
    [[ -s $LAB/$boot/initrd ]] || continue
    for name in init bin/busybox virtio_blk.ko ext4.ko modules.builtin; do
      in_toolchain cpio --quiet -t <"$LAB/$boot/initrd" | grep -q "$name$" ||
        missing "$name in build/lab/$boot/initrd"
    done
  done
}

check_lab() {
  MISSING=0
  rm -f "$LAB/.ready"
  check_toolchain
  check_guest
  check_images
  if ((MISSING > 0)); then
    warn "$MISSING missing; 'make lab' continues where it stopped, logs are in build/log/"
    return 1
  fi
  touch "$LAB/.ready"
  say "the lab is complete:"
  sed 's/^/  /' "$LAB/VERSIONS"
}
