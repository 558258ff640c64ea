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
