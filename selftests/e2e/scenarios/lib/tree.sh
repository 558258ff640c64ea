# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Several workloads in one process tree: the last one is its root, the others are children of that.
# Each has its own log; functions of lib/ act on the one that PID and LOG name.

# start_tree "PROGRAM OPTIONS"...: sets TREE (pids) and TREE_LOGS, both in the order of the arguments.
# With TREE_ROOT=shell, the root is a shell instead, which waits for all of them.
start_tree() {
  local script="" number command
  TREE=() TREE_LOGS=()
  for ((number = 1; number <= $#; number++)); do
    command="$PAYLOAD/bin/${!number}"
    TREE_LOGS+=("$DIR/workload-$number.log")
    if [ $number -lt $# ] || [ -n "${TREE_ROOT-}" ]; then
      script+="$command >>$DIR/workload-$number.log 2>&1 & "
    else
      script+="exec $command >>$DIR/workload-$number.log 2>&1"
    fi
  done
  [ -z "${TREE_ROOT-}" ] || script+="wait"
  touch "${TREE_LOGS[@]}"
  first_pid_of_scenario
  setsid sh -c "$script" </dev/null >/dev/null 2>&1 &
  ROOT=$!
  PIDS+=("$ROOT")
  wait_until 120 tree_started || fail "not all workloads are ready after 120 s"
  if gone "$ROOT"; then
    cat "${TREE_LOGS[@]}" >"$DIR/workload.log"
    grep -q '^skip: ' "$DIR/workload.log" && skip "$(sed -n 's/^skip: //p' "$DIR/workload.log")"
    fail "a workload ended at its start"
  fi
  disown "$ROOT"
  for ((number = 0; number < $#; number++)); do
    TREE+=("$(sed -n 's/^ready: pid \([0-9]*\).*/\1/p' "${TREE_LOGS[number]}")")
  done
  PIDS+=("${TREE[@]}")
}

tree_started() {
  local LOG
  gone "$ROOT" && return
  for LOG in "${TREE_LOGS[@]}"; do
    log_has 'ready: ' || log_has 'skip: ' || return
  done
}

# for_each COMMAND...: with PID and LOG of each workload in turn
for_each() {
  local member
  for member in "${!TREE[@]}"; do
    PID=${TREE[member]} LOG=${TREE_LOGS[member]}
    MEMBER=$member
    "$@" || return
  done
}

remember_usage() {
  TREE_USAGE[MEMBER]=$(gpu_usage)
  uses_gpu "before the dump" "${TREE_USAGE[MEMBER]}"
}
remember_step() {
  gone "$PID" || fail "process $PID of the dumped tree is still there"
  TREE_STEP[MEMBER]=$(last_step)
}

# dump_and_kill_tree WHAT IMAGES OPTIONS...
dump_and_kill_tree() {
  TREE_USAGE=() TREE_STEP=()
  for_each remember_usage
  PID=$ROOT
  criu_dump "$@" || fail "$1: criu dump ended with status $?"
  for_each remember_step
  echo "$1 $DUMP_SECONDS s, images $(image_mebibytes "$2") MiB, ${#TREE[@]} workloads," \
    "steps ${TREE_STEP[*]}"
}

member_goes_on() { # member_goes_on WHAT
  alive "$PID" || fail "$1: there is no process $PID after the restore"
  goes_on "${TREE_STEP[MEMBER]}" "$1"
  all_memory_is_right "$1"
  same_usage "$(gpu_usage)" "${TREE_USAGE[MEMBER]}" ||
    fail "$1: process $PID has $(gpu_usage), before the dump ${TREE_USAGE[MEMBER]}"
}

# restore_and_check_tree WHAT IMAGES
restore_and_check_tree() {
  PID=$ROOT
  criu_restore "$1" "$2" || fail "$1: criu restore ended with status $?"
  PIDS+=("$ROOT" "${TREE[@]}")
  for_each member_goes_on "$1"
  echo "$1 $RESTORE_SECONDS s, all ${#TREE[@]} go on, all memory right"
}

member_survives() {
  goes_on "$(last_step)" "$1"
  all_memory_is_right "$1"
}

# Children first; children that the root does not reap count as gone.
tree_ends_well() { for_each ends_well "$1"; }
