# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Suites in the debug kernel (scripts/debug-kernel), for `make check-debug` and its campaign.

# Everything is some ten times as slow there.
DEBUG_PATIENCE=10

# Most tests keep one processor busy, so there are two guests at a time, one for each of these lines.
# The campaign has the scenarios whole. What boots other kernels or drivers, or wants more of a
# kernel than kernel/debug.config has, is not among them.
DEBUG_KSELFTESTS=(guest kselftest next-version kselftest-hang)
DEBUG_SAMPLE_OF_THE_REST=(e2e-debug)
DEBUG_THE_REST=(e2e e2e-render e2e-trees e2e-reboot e2e-swapped)

# The kernel, the driver for it, and the later driver for the tests of versions.
build_for_debug() { "$TOP/scripts/debug-kernel" && "$TOP/scripts/module" --debug-kernel --next; }

# debug_guests NAME SECONDS SAMPLE SUITE...: results are in build/results/NAME-*.tap.
debug_guests() {
  local name=$1 seconds=$2 sample=$3 status=0
  shift 3
  timeout "$seconds" "$TOP/selftests/vm/check" --name "$name" --kernel build/debug-kernel/boot \
    --module build/module/7.2-debug-kernel/amdgpu.ko --patience "$DEBUG_PATIENCE" \
    --environment "AMDGPU_CRIU_SAMPLE=$sample" \
    --epilogue '/payload/debug-kernel /payload/debug-known.txt' "$@" || status=1
  compgen -G "$RESULTS/$name-*.tap" >/dev/null || status=1
  return "$status"
}

# check_debug SECONDS SAMPLE: SAMPLE is how many faults, changed blobs and BOs there are for each one
# that is taken (selftests/amdgpu_criu/sample.h); 1 is the campaign.
check_debug() {
  local seconds=$1 sample=$2 status=0 beside log=$LOGS/debug-rest.log
  local rest=("${DEBUG_SAMPLE_OF_THE_REST[@]}")
  ((sample > 1)) || rest=("${DEBUG_THE_REST[@]}")
  mkdir -p "$LOGS"
  say "one in $sample of faults, changed blobs and BOs, where there are hundreds (AMDGPU_CRIU_SAMPLE)"
  say "beside the next: ${rest[*]} (build/log/debug-rest.log)"
  debug_guests debug-rest "$seconds" "$sample" "${rest[@]}" >"$log" 2>&1 </dev/null &
  beside=$!
  debug_guests debug-kselftests "$seconds" "$sample" "${DEBUG_KSELFTESTS[@]}" || status=1
  wait "$beside" || status=1
  cat "$log"
  return "$status"
}
