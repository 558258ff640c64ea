# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # CRIU, LOG and PID are those of lib/
# What must work.

BEFORE_DUMP=50

# round_trip PROGRAM OPTIONS...: dump, restore, end
round_trip() {
  need_plugin
  start "$@"
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

scenario_workload_alone() {
  need_gpus 1
  start gpu_chain
  describe_workload
  goes_on 0 "without a checkpoint"
  all_memory_is_right "without a checkpoint"
  ends_well "without a checkpoint"
}

scenario_one_gpu() {
  need_gpus 1
  round_trip gpu_chain
}

scenario_two_gpus() {
  need_gpus 2
  round_trip gpu_chain --gpus 2 --vram 16
}

scenario_rocr() {
  need_gpus 1
  round_trip rocr_chain
}

scenario_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  need_gpus 1
  round_trip gpu_chain
}

scenario_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  need_gpus 1
  round_trip gpu_chain
}

scenario_leave_running() {
  need_gpus 1
  need_plugin
  start gpu_chain
  describe_workload
  criu_dump dump "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  local step
  step=$(last_step)
  goes_on "$step" "after the dump"
  all_memory_is_right "after the dump"
  echo "dump $DUMP_SECONDS s, step $step -> $(last_step) in the same process, all memory right"
  ends_well "after the dump"
}

scenario_three_rounds() {
  need_gpus 1
  need_plugin
  start gpu_chain
  describe_workload
  local round
  for round in 1 2 3; do
    dump_and_kill "dump-$round" "$DIR/images-$round"
    restore_and_check "restore-$round" "$DIR/images-$round"
    rm -r "$DIR/images-$round"
  done
  ends_well "after three rounds"
}

scenario_reloaded_driver() {
  need_gpus 1
  need_plugin
  start gpu_chain
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  reload_driver
  echo "driver removed and loaded again"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# Over two boots with the same scratch disk: the first half leaves images, log and these facts.
keep_for_next_boot() { # keep_for_next_boot NAME
  {
    declare -p PID STEP_BEFORE READY USAGE
    echo "OLD_GPU_IDS='$(gpu_ids | tr '\n' ' ')'"
    echo "OLD_BOOT=$(cat /proc/sys/kernel/random/boot_id)"
  } >"$KEPT/$1.facts"
  sync
}

# dump_for_next_boot NAME PROGRAM OPTIONS...
dump_for_next_boot() {
  local name=$1
  shift
  need_plugin
  rm -rf "${KEPT:?}/$name"
  mkdir -p "$KEPT/$name"
  start "$@"
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$KEPT/$name/images"
  keep_for_next_boot "$name"
}

# restore_from_boot_before NAME: the log is where the process had it
restore_from_boot_before() {
  local name=$1
  need_plugin
  [ -e "$KEPT/$name.facts" ] || fail "no images of the boot before: run ${name}_dump first"
  # shellcheck source=/dev/null
  . "$KEPT/$name.facts"
  [ "$OLD_BOOT" != "$(cat /proc/sys/kernel/random/boot_id)" ] || fail "this is the same boot"
  LOG=$SCRATCH/e2e/${name}_dump/workload.log
  PIDS+=("$PID")
  echo "process of the boot before: $USAGE; GPUs then $OLD_GPU_IDS now $(gpu_ids | tr '\n' ' ')"
  restore_and_check restore "$KEPT/$name/images"
  gpu_map restore
  ends_well "after the restore"
  rm -rf "${KEPT:?}/$name" "$KEPT/$name.facts"
}

scenario_fresh_driver_dump() {
  need_gpus 1
  dump_for_next_boot fresh_driver gpu_chain
}
scenario_fresh_driver() { restore_from_boot_before fresh_driver; }

scenario_swapped_gpus_dump() {
  need_gpus 2
  dump_for_next_boot swapped_gpus gpu_chain --gpus 2 --vram 16
}

scenario_swapped_gpus() {
  need_gpus 2
  # shellcheck source=/dev/null
  [ "$(. "$KEPT/swapped_gpus.facts" && echo "$OLD_GPU_IDS")" != "$(gpu_ids | tr '\n' ' ')" ] ||
    fail "the GPUs have the same gpu_ids in the same order as at the dump"
  restore_from_boot_before swapped_gpus
}
