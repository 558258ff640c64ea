# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Suites in the debug kernel (scripts/debug-kernel), for `make check-debug` and its campaign.

# Everything is some ten times as slow there.
DEBUG_PATIENCE=10

# The kernel, the driver for it, and the later driver for the tests of versions.
build_for_debug() { "$TOP/scripts/debug-kernel" && "$TOP/scripts/module" --debug-kernel --next; }

# The suites that are about us; not those that boot other kernels or drivers, or want more of a
# kernel than kernel/debug.config has.
DEBUG_SUITES=(guest kselftest next-version kselftest-hang e2e e2e-render e2e-trees e2e-reboot
  e2e-swapped)

# check_debug SECONDS SAMPLE [SUITE]...: all suites, or these. SAMPLE is how many faults, changed
# blobs and BOs there are for each one that is taken: see selftests/amdgpu_criu/sample.h.
check_debug() {
  local seconds=$1 sample=$2
  shift 2
  (($# > 0)) || set -- "${DEBUG_SUITES[@]}"
  say "one in $sample of faults, changed blobs and BOs, where there are hundreds (AMDGPU_CRIU_SAMPLE)"
  timeout "$seconds" "$TOP/selftests/vm/check" --kernel build/debug-kernel/boot \
    --module build/module/7.2-debug-kernel/amdgpu.ko --patience "$DEBUG_PATIENCE" \
    --environment "AMDGPU_CRIU_SAMPLE=$sample" \
    --epilogue '/payload/debug-kernel /payload/debug-known.txt' "$@"
}
