# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Suites in the debug kernel (scripts/debug-kernel), for `make check-debug` and its campaign.

# Everything is some ten times as slow there.
DEBUG_PATIENCE=10

# The kernel, the driver for it, and the later driver for the tests of versions.
build_for_debug() { "$TOP/scripts/debug-kernel" && "$TOP/scripts/module" --debug-kernel --next; }

# The suites that are about us: not those that boot other kernels, and not what others wrote to
# test the driver.
debug_suites() {
  (cd "$TOP/selftests/vm/suites" &&
    grep -LE '^base *=|^bases = 6.12$' -- *.suite | xargs sed -n 's/^name = //p' | grep -vx igt)
}

# check_debug SECONDS SAMPLE [SUITE]...: all suites, or these. SAMPLE is how many faults, changed
# blobs and BOs there are for each one that is taken: see selftests/amdgpu_criu/sample.h.
check_debug() {
  local seconds=$1 sample=$2
  shift 2
  # shellcheck disable=SC2046 # names of suites are single words
  (($# > 0)) || set -- $(debug_suites)
  say "one in $sample of faults, changed blobs and BOs, where there are hundreds (AMDGPU_CRIU_SAMPLE)"
  timeout "$seconds" "$TOP/selftests/vm/check" --kernel build/debug-kernel/boot \
    --module build/module/7.2-debug-kernel/amdgpu.ko --patience "$DEBUG_PATIENCE" \
    --environment "AMDGPU_CRIU_SAMPLE=$sample" \
    --epilogue '/payload/debug-kernel /payload/debug-known.txt' "$@"
}
