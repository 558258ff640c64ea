# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Results of a rung of `make check`: lines "ok NAME", "not ok NAME", "skip NAME # reason" in
# build/results/RUNG.tap, which scripts/summary adds up.

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

# tap_run NAME LOG COMMAND...: one test, which the exit code decides.
tap_run() {
  local name=$1 log=$2 start=$SECONDS
  shift 2
  if run_logged "$log" "$@"; then
    tap "ok $name # $((SECONDS - start)) s"
  else
    tap "not ok $name"
  fi
}

# Whether a rung has passed: it wrote results, none of them bad.
tap_passed() {
  [[ -s $RESULTS/$1.tap ]] && ! grep -q '^not ok' "$RESULTS/$1.tap"
}

# tap_whole NAME FUNCTION: all that writes NAME.tap and NAME-*.tap. Whatever happens in it, its
# failure is counted: also when it dies before its first result.
tap_whole() {
  local name=$1 start=$SECONDS outcome=passed
  say "== $name"
  if ! ("$2"); then
    outcome=FAILED
    grep -qs '^not ok' "$RESULTS/$name.tap" "$RESULTS/$name"-*.tap ||
      echo "not ok $name # ended early" >>"$RESULTS/$name.tap"
  fi
  say "== $name: $outcome, $((SECONDS - start)) s"
}
