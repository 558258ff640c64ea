# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# State of KFD in processes that have closed /dev/kfd. The workload compares its descriptors.

has_paused() { grep -aqs "paused the GPU queues of process $PID " "$DIR/criu-$1.log"; }

start_closed() { # start_closed OPTIONS...
  rm -rf "$DIR/images" "$DIR/workload.log"
  start kfd_closed "$@"
  first_steps 5
}

# A dry run, a pause and a pre-dump open /dev/kfd for a moment.
looks_at_closed() {
  "$TOOL" check --pid "$PID" | grep "^ok   a dump of process $PID would carry" || fail "the dry run says another thing"
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  "$TOOL" thaw --pid "$PID" || fail "thaw: status $?"
  mkdir -p "$DIR/images/early"
  "$TOOL" pre-dump --pid "$PID" -D "$DIR/images/early" || fail "pre-dump: status $?"
  all_memory_is_right "after a pause and a pre-dump"
}

# carries_closed WAY: through a dump that fails, one that succeeds, and a restore
carries_closed() {
  ! AMDGPU_CRIU_TEST_FAIL=DUMP_EXT_FILE:1:EIO criu_dump "$1-failed" "$DIR/images" || fail "$1: the dump succeeded"
  had_its_fault "$1-failed"
  survives "$1: after a failed dump"
  dump_and_kill "$1-dump" "$DIR/images"
  has_paused "$1-dump" || fail "$1: the dump has no state of /dev/kfd"
  restore_and_check "$1-restore" "$DIR/images"
}

scenario_kfd_closed() {
  need_gpus 1
  need_plugin
  start_closed --queues 1
  looks_at_closed
  carries_closed queue
  # What was restored is the same.
  rm -r "$DIR/images"
  criu_dump again "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  survives "after a dump of the restored process"
  ends_well "after that"
}

# Memory alone, of which nothing but KFD's sysfs knows, and with the render node that it is in.
scenario_kfd_closed_ways() {
  need_gpus 1
  need_plugin
  start_closed --queues 0
  carries_closed memory
  ends_well memory
  CRIU=/opt/criu-4.3/criu
  start_closed --queues 0 --keep-render 1
  carries_closed render
  ends_well render
  CRIU=/opt/criu-4.1.1/criu
  start_closed --queues 1 --keep-render 1
  carries_closed both
  ends_well both
  only_opened
}

# A program that has opened /dev/kfd and closed it, such as amd-smi, needs no GPU at the restore.
only_opened() {
  first_pid_of_scenario
  rm -rf "$DIR/images"
  setsid bash -c 'exec 5<>/dev/kfd 5>&-; sleep 1000; true' </dev/null >/dev/null 2>&1 &
  PID=$!
  disown "$PID"
  PIDS+=("$PID")
  wait_until 20 test -d "/sys/class/kfd/kfd/proc/$PID" || fail "KFD does not know process $PID"
  "$TOOL" check --pid "$PID" | grep 'use no AMD GPU' || fail "a dry run finds state"
  criu_dump opened "$DIR/images" || fail "criu dump ended with status $?"
  ! compgen -G "$DIR/images/amdgpu-*.img" || fail "there are images of GPU state"
  PLUGIN_DIR=$DIR/none
  mkdir "$PLUGIN_DIR"
  criu_restore opened-restore "$DIR/images" || fail "criu restore ended with status $?"
  alive "$PID" || fail "there is no process $PID after the restore"
}
