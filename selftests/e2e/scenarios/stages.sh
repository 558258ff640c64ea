# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Dumps that do not kill the process, or that have several stages.

is_stopped() { grep -q '^State:[[:space:]]*T' "/proc/$1/status"; }

scenario_leave_stopped() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps 20
  criu_dump dump "$DIR/images" --leave-stopped || fail "criu dump ended with status $?"
  wait_until 10 is_stopped "$PID" || fail "the process is not stopped"
  kill -CONT "$PID"
  survives "after it was continued"
  ends_well "after it was continued"
}

# The process runs between the stages; only the last one pauses its GPU.
scenario_pre_dump() {
  # The driver's count for the file includes page tables, and a userptr's number of page tables
  # depends on its pages, which the process's writes move after the first stage.
  gpu_usage() { kfd_usage; }
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps 20
  mkdir -p "$DIR/images/first"
  "$CRIU" pre-dump -t "$PID" -D "$DIR/images/first" -W "$DIR" -o criu-pre-dump.log -v4 \
    --shell-job -L "$PLUGIN_DIR" --track-mem || fail "criu pre-dump ended with status $?"
  ! compgen -G "$DIR/images/first/amdgpu-*.img" >/dev/null || fail "pre-dump wrote GPU images"
  survives "after the pre-dump"
  USAGE=$(gpu_usage)
  criu_dump dump "$DIR/images/last" --track-mem --prev-images-dir ../first ||
    fail "criu dump ended with status $?"
  gone "$PID" || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  restore_and_check restore "$DIR/images/last"
  ends_well "after the restore"
}
