# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Shared by all scripts: paths, messages, locks and logs.

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

# retry COUNT COMMAND...: runs a command that needs the network until it succeeds.
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

# with_lock FILE MESSAGE: holds the lock until the calling shell ends. Prints the message if it has to
# wait.
with_lock() {
  local fd
  mkdir -p "${1%/*}"
  exec {fd}>"$1"
  flock -n "$fd" && return
  warn "$2"
  flock "$fd"
}

stage_lock() { printf '%s\n' "$TOP/build/stage/.lock-$1"; }

# hold_stage NAME: keeps build/stage/NAME unchanged until the calling shell ends.
hold_stage() {
  local fd
  exec {fd}>"$(stage_lock "$1")"
  flock -s "$fd"
}

# run_logged NAME COMMAND...: writes the output to build/log/NAME.log. On failure it prints the tail
# and the path of the log.
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
