# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A training run by one process on each node of a pair of guests, whose gradients RCCL adds over TCP. Node 2
# leads: it announces each dump and each restore by a file in MEETING, and node 1 answers by another one.

MEETING=/shared/meeting
MEETING_SECONDS=600

announce() { : >"$MEETING/$1"; }
await() { wait_until $MEETING_SECONDS [ -e "$MEETING/$1" ] || fail "the other node has not announced $1"; }

need_rccl_node() {
  need_rccl 1
  export NCCL_RAS_ENABLE=0 # the monitor would connect again to a process that is being dumped
}

node2_wants_or_ended() { [ -e "$MEETING/dump-$1" ] || gone "$PID"; }

# Runs on node 1, for rccl_nodes.
scenario_rccl_joins() {
  local number
  need_rccl_node
  start "$PAYLOAD/models/train_rccl.py" --join 10.0.0.2
  for ((number = 1; ; number++)); do
    wait_until $MEETING_SECONDS node2_wants_or_ended $number || fail "node 2 does nothing"
    [ -e "$MEETING/dump-$number" ] || break
    dump_rccl $number
    announce "dumped-$number"
    await "restore-$number"
    restore_rccl $number
    rm -r "$DIR/images"
    announce "restored-$number"
  done
  grep -q '^member 1 weights ' "$LOG" || fail "the member has no weights"
}

# start_nodes [STEPS]: sets ASKED, PID and LOG
start_nodes() {
  rm -rf "$MEETING"
  mkdir -p "$MEETING"
  ask_node1 "PATIENCE=$PATIENCE /payload/e2e/run rccl_joins"
  start "$PAYLOAD/models/train_rccl.py" --wait "$@"
}

node1_is_done() {
  local status
  wait_until $MEETING_SECONDS [ -e "/shared/answered/$ASKED" ] || fail "node 1 does not end"
  read -r status <"/shared/answered/$ASKED"
  [ "$status" = 0 ] || fail "node 1: $(tail -n 30 "/shared/answered/$ASKED.output")"
}

# dump_nodes NUMBER: both processes are dumped and killed, this one first, and restored, this one last; sets WAVES
dump_nodes() {
  STEP_BEFORE=$(last_step)
  dump_rccl "$1"
  announce "dump-$1"
  await "dumped-$1"
  count_waves "$DIR/images"
  announce "restore-$1"
  await "restored-$1"
  restore_rccl "$1"
  goes_on "$STEP_BEFORE" "after restore $1"
  rm -r "$DIR/images"
  echo "both nodes dumped after step $STEP_BEFORE, this one with $WAVES waves"
}

# Losses and weights are those of an undisturbed run, to the bit. At least three dumps, one of them with waves.
scenario_rccl_nodes() {
  local log steps number met=0
  need_pair
  need_rccl_node
  start_nodes
  first_steps 3
  all_memory_is_right "before the dump"
  for ((number = 1; number <= 3 || !met; number++)); do
    ((number <= 8)) || fail "no dump has met waves"
    dump_nodes $number
    ((!WAVES)) || met=1
  done
  all_memory_is_right "after the restores"
  ends_well "after the restores"
  node1_is_done
  log=$LOG steps=$(last_step)
  LOG_NAME=undisturbed start_nodes "$steps"
  wait_gone "$PID" $((steps * 60)) || fail "the undisturbed run does not end"
  node1_is_done
  same_training "$LOG" "$log"
}
