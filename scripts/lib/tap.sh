# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Results of a rung of `make check`: lines "ok NAME", "not ok NAME", "skip NAME # reason" in
# build/results/RUNG.tap, which lib/ladder adds up.

TAP=/dev/null

tap_begin() {
  mkdir -p "$RESULTS"
  TAP=$RESULTS/$1.tap
  : >"$TAP"
}

tap() {
  printf '%s\n' "$*" >>"$TAP"
  say "  $*"
}

# tap_run NAME LOG COMMAND...: runs a test. It passes if the exit code is 0.
tap_run() {
  local name=$1 log=$2 start=$SECONDS
  shift 2
  if run_logged "$log" "$@"; then
    tap "ok $name # $((SECONDS - start)) s"
  else
    tap "not ok $name"
  fi
}

# tap_passed RUNG: true if the rung wrote results and none of them failed.
tap_passed() {
  [[ -s $RESULTS/$1.tap ]] && ! grep -q '^not ok' "$RESULTS/$1.tap"
}
