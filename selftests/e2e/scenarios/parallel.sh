# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Contents are filled while the tasks are restored, by default.

fills() { grep -c '(amdgpu): filled ' "$DIR/criu-$1.log"; }
fills_in_background() { grep -c '(amdgpu): filled .* in the background' "$DIR/criu-$1.log"; }

parallel_tree() { # parallel_tree: one process on both GPUs, one that shares, one on its own
  need_gpus 2
  need_plugin
  start_tree "gpu_chain --gpus 2" "render_group family" "gpu_chain"
  round_trip_tree
}

all_in_background() {
  parallel_tree
  [ "$(fills restore)" -gt 0 ] || fail "nothing was filled"
  [ "$(fills restore)" -eq "$(fills_in_background restore)" ] ||
    fail "$(fills_in_background restore) of $(fills restore) times BOs were filled in the background"
  echo "all contents were filled in the background"
}

scenario_parallel() { all_in_background; }

scenario_parallel_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  all_in_background
}

# This CRIU creates its descriptor store too late, so each task fills the memory that it restores.
scenario_parallel_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  parallel_tree
  [ "$(fills_in_background restore)" -eq 0 ] || fail "CRIU 4.1.1 has no place for a background"
}

scenario_parallel_off() {
  export AMDGPU_CRIU_PARALLEL=off
  parallel_tree
  [ "$(fills_in_background restore)" -eq 0 ] || fail "filled in the background anyway"
}

# The process is number 1 of its own namespaces, as in a container.
scenario_parallel_namespaces() {
  need_gpus 1
  need_plugin
  LOG=$DIR/workload.log
  first_pid_of_scenario
  unshare --pid --net --ipc --uts --fork setsid "$PAYLOAD/bin/gpu_chain" \
    </dev/null >>"$LOG" 2>&1 &
  local unshare=$!
  PIDS+=("$unshare")
  wait_until 120 log_has 'ready: ' || fail "the workload is not ready"
  disown "$unshare"
  PID=$(pgrep -P "$unshare")
  PIDS+=("$PID")
  first_steps "$BEFORE_DUMP"
  dump_and_kill dump "$DIR/images"
  criu_restore restore "$DIR/images" --pidfile "$DIR/pid" ||
    fail "criu restore ended with status $?"
  PID=$(cat "$DIR/pid")
  PIDS+=("$PID")
  goes_on "$STEP_BEFORE" "after the restore"
  all_memory_is_right "after the restore"
  [ "$(fills_in_background restore)" -gt 0 ] || fail "nothing was filled in the background"
  [ "$(sed -n 's/^NSpid:.*\t//p' "/proc/$PID/status")" = 1 ] || fail "it is not in a pid namespace"
  echo "process $PID, 1 in its namespace, goes on, all memory right"
  ends_well "after the restore"
}
