# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What every script here shares: where things are, how they speak, steps with stamps.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
LAB=$TOP/build/lab
LOGS=$TOP/build/log
RESULTS=$TOP/build/results
export TOP LAB LOGS RESULTS

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  warn "$@"
  exit 1
}

# retry COUNT COMMAND...: for what depends on a network.
retry() {
  local left=$1 pause=2
  shift
  until "$@"; do
    ((--left > 0)) || return 1
    warn "failed, trying again in $pause s: $*"
    sleep "$pause"
    pause=$((pause * 3))
  done
}

# with_lock FILE MESSAGE: one holder at a time, until the calling shell ends.
with_lock() {
  local fd
  mkdir -p "${1%/*}"
  exec {fd}>"$1"
  flock -n "$fd" && return
  warn "$2"
  flock "$fd"
}

stage_lock() { printf '%s\n' "$TOP/build/stage/.lock-$1"; }

# hold_stage NAME: build/stage/NAME stays as it is until the calling shell ends.
hold_stage() {
  local fd
  exec {fd}>"$(stage_lock "$1")"
  flock -s "$fd"
}

# run_logged NAME COMMAND...: output to build/log/NAME.log; on failure its tail and path.
run_logged() {
  local log=$LOGS/$1.log rc=0
  shift
  mkdir -p "$LOGS"
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  if ((rc != 0)); then
    warn "failed (exit code $rc): $*"
    sed 's/^/    /' < <(tail -n 25 "$log") >&2
    warn "the whole log: $log"
  fi
  return "$rc"
}

# A step is a shell function step_NAME. Its stamp holds a hash of the function's text, of the
# values it was given and of the stamps it depends on, so a changed package list reruns the step
# and all that follows from it.
STAMPS=$LAB/.stamps

step_key() {
  local name=$1 dep
  shift
  {
    declare -f "step_$name"
    for dep; do
      case $dep in
      @*) cat "$STAMPS/${dep#@}" 2>/dev/null || true ;;
      *) printf '%s\n' "$dep" ;;
      esac
    done
  } | sha256sum | cut -d' ' -f1
}

# run_step NUMBER NAME "what it makes" [VALUE | @STEP]...
run_step() {
  local number=$1 name=$2 title=$3 key start
  shift 3
  key=$(step_key "$name" "$@")
  if [[ -f $STAMPS/$name && $(<"$STAMPS/$name") == "$key" ]]; then
    return 0
  fi
  mkdir -p "$STAMPS"
  rm -f "$STAMPS/$name" "$LAB/.ready"
  start=$SECONDS
  say "[$number/$STEPS_TOTAL] $title ..."
  run_logged "lab-$name" "$TOP/scripts/lab" --step "$name" || return 1
  printf '%s\n' "$key" >"$STAMPS/$name"
  say "[$number/$STEPS_TOTAL] $title: done, $((SECONDS - start)) s"
}
