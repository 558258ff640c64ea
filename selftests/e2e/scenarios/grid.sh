# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Kernels on more than one work-group, and kernels that fail, through ROCr.

# Work-groups that wait for each other at a barrier of the whole grid (GWS), and a queue that runs on
# the compute units that were chosen before the dump.
scenario_rocr_grid() {
  STEPS_WANTED=0
  need_gpus 1
  need_plugin
  start rocr_grid
  all_memory_is_right "before the dump"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  restore_in_long_kernel restore "$DIR/images"
  ends_well "after the restore"
}

# Kernels that fail: the driver's trap handler and ROCr's report each to the program.
scenario_rocr_faults() {
  need_gpus 1
  allow_complaint 'model fault: .*no instruction 0xffffffff'
  allow_complaint 'page fault \(src_id|VM fault: VMID [0-9]+ cannot write 0x765432101000: not mapped'
  "$PAYLOAD/bin/rocr_faults" || fail "a fault is not reported as it should be"
}

# Saved waves return to their shader engine. So a kernel that fills the GPU, and whose work-groups wait
# for each other, never ends on a board that has fewer compute units in one of the engines.
scenario_uneven_full() {
  STEPS_WANTED=0
  need_gpus 2
  need_plugin
  local -a ids
  mapfile -t ids < <(gpu_ids)
  start rocr_grid --full 1
  all_memory_is_right "before the dump"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  [ "$("$PAYLOAD/bin/amdgpu-criu" show --json "$DIR/images" | grep -o '"cu_layout": *[0-9]*' |
    sort -u | wc -l)" = 2 ] || fail "the boards have the same CUs in the images"
  AMDGPU_CRIU_MAP=${ids[0]}=${ids[1]} criu_restore moved "$DIR/images" && restored_without_room
  grep -q 'CUs per shader array are' "$DIR/criu-moved.log" || fail "the log does not name the CUs"
  nothing_runs "after the refused restore"
  # The board that has room is chosen.
  restore_in_long_kernel restore "$DIR/images"
  [[ $(gpu_map restore) == "$(printf '0x%x -> 0x%x' "${ids[0]}" "${ids[0]}")"* ]] ||
    fail "restored on $(gpu_map restore)"
  ends_well "after the restore"
}

restored_without_room() {
  PIDS+=("$PID")
  all_memory_is_right "on a board without room"
  fail "a board without room was accepted"
}

# Waves that have room in their shader engine on any board of the kind: two work-groups in each.
scenario_uneven_moved() {
  STEPS_WANTED=0
  need_gpus 2
  need_plugin
  local -a ids
  mapfile -t ids < <(gpu_ids)
  start rocr_kernels --held 4
  all_memory_is_right "before the dump"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  export AMDGPU_CRIU_MAP=${ids[0]}=${ids[1]}
  restore_in_long_kernel restore "$DIR/images"
  in_long_kernel $(($(last_step) + 1))
  dump_and_kill back "$DIR/images2"
  AMDGPU_CRIU_MAP=${ids[1]}=${ids[0]}
  restore_in_long_kernel restore-back "$DIR/images2"
  ends_well "after the restores"
}
