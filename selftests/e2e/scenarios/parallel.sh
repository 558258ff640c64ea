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
  # CRIU began at 1000, and the tasks are above 20000.
  [ "$(</proc/sys/kernel/ns_last_pid)" -lt 20000 ] ||
    fail "the restore moved ns_last_pid to $(</proc/sys/kernel/ns_last_pid)"
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
  [ "$(fills restore)" -gt 0 ] || fail "nothing was filled"
  [ "$(fills_in_background restore)" -eq 0 ] || fail "CRIU 4.1.1 cannot have a background process"
}

scenario_parallel_off() {
  export AMDGPU_CRIU_PARALLEL=off
  parallel_tree
  [ "$(fills restore)" -gt 0 ] || fail "nothing was filled"
  [ "$(fills_in_background restore)" -eq 0 ] || fail "filled in the background anyway"
}

# start_in_namespaces OPTIONS...: gpu_chain as number 1 of namespaces of its own, as in a container.
start_in_namespaces() {
  LOG=$DIR/workload.log
  first_pid_of_scenario
  unshare --pid --net --ipc --uts --fork setsid "$PAYLOAD/bin/gpu_chain" "$@" \
    </dev/null >>"$LOG" 2>&1 &
  local unshare=$!
  PIDS+=("$unshare")
  wait_until 120 log_has 'ready: ' || fail "the workload is not ready"
  disown "$unshare"
  PID=$(pgrep -P "$unshare")
  PIDS+=("$PID")
  first_steps "$BEFORE_DUMP"
}

scenario_parallel_namespaces() {
  need_gpus 1
  need_plugin
  start_in_namespaces
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

# start_neighbours COMMAND...: two processes with PIDs near each other, which end with the scenario; sets NEAR
start_neighbours() {
  local number
  NEAR=()
  for number in 1 2; do
    LOG_NAME=job-$number start "$@"
    NEAR+=("$PID")
  done
}

# of_each COMMAND...: COMMAND JOB for both, with PID and LOG of it
of_each() {
  local number
  for number in 1 2; do
    PID=${NEAR[number - 1]}
    LOG=$DIR/job-$number.log
    "$@" "job-$number"
  done
}
dump_neighbour() {
  dump_and_kill "dump-$1" "$DIR/images-$1"
  eval "STEP_OF_${1/-/_}=$STEP_BEFORE"
}
neighbour_is_back() {
  local step=STEP_OF_${1/-/_}
  PIDS+=("$PID")
  goes_on "${!step}" "$1"
  all_memory_is_right "$1"
}
kill_neighbour() {
  kill -KILL "$PID"
  wait_gone "$PID" 20 || fail "$1 does not end"
}

# Restores of jobs whose PIDs are near each other, at the same time, and with other programs between them.
scenario_neighbour_pids() {
  local restores=() number
  need_gpus 1
  need_plugin
  start_neighbours gpu_chain --vram 32
  of_each dump_neighbour
  for number in 1 2; do
    criu_restore "together-$number" "$DIR/images-job-$number" &
    restores+=("$!")
  done
  for number in 1 2; do
    wait "${restores[number - 1]}" || fail "job $number was not restored beside the other one"
  done
  number=$(</proc/sys/kernel/ns_last_pid)
  [ "$number" -lt $(($(</proc/sys/kernel/pid_max) - 1000)) ] || fail "the number $number is left behind"
  of_each neighbour_is_back
  of_each kill_neighbour
  criu_restore first "$DIR/images-job-1" || fail "the first job was not restored"
  for number in {1..40}; do
    sleep 300 &
    PIDS+=("$!")
  done
  criu_restore second "$DIR/images-job-2" || fail "the second job was not restored after other programs"
  of_each neighbour_is_back
  of_each ends_well
  criu_alone_needs_its_pids
}

# Without a plugin, too, a restore fails if a process of CRIU takes a PID that it needs.
criu_alone_needs_its_pids() {
  mkdir "$DIR/images-alone" "$DIR/no-plugin"
  setsid sleep 300 </dev/null >/dev/null 2>&1 &
  PID=$!
  disown "$PID"
  "$CRIU" dump -t "$PID" -D "$DIR/images-alone" -L "$DIR/no-plugin" -o dump.log -v4 || fail "sleep was not dumped"
  echo $((PID - 1)) >/proc/sys/kernel/ns_last_pid
  ! "$CRIU" restore -d -D "$DIR/images-alone" -L "$DIR/no-plugin" -o restore.log -v4 </dev/null ||
    fail "CRIU has restored process $PID although it has begun with that PID: mend the limit in criu-amdgpu(1)"
  grep -o "Can't fork for $PID: .*" "$DIR/images-alone/restore.log" || fail "CRIU names another reason"
}

# restore_replica NUMBER OPTIONS...: with files of its own, which CRIU finds at the paths of the first one's
restore_replica() {
  local number=$1 log=$DIR/replica-$1.log CRIU=$DIR/criu-$1
  cp "$DIR/dumped" "$log"
  printf '#!/bin/sh\nexec unshare --mount sh -c %s sh "$@"\n' \
    "'mount --bind $log $DIR/workload.log && exec criu \"\$@\"'" >"$CRIU"
  chmod +x "$CRIU"
  criu_restore "replica-$number" "$DIR/images" --pidfile "$DIR/pid-$number" "${@:2}"
}

add_replica() { # add_replica NUMBER: to the processes that end with the scenario
  PIDS+=("$(cat "$DIR/pid-$1")")
}

# replica NUMBER COMMAND...: with PID and LOG of that replica
replica() {
  PID=$(cat "$DIR/pid-$1")
  LOG=$DIR/replica-$1.log
  "${@:2}" "replica $1"
}

# has_kfd_processes COUNT
has_kfd_processes() { [ "$(find /sys/class/kfd/kfd/proc -mindepth 1 -maxdepth 1 | wc -l)" -eq "$1" ]; }

# More than fit. They stay stopped, which leaves the processor to the next one.
fill_gpus_with_replicas() { # fill_gpus_with_replicas FIRST
  local number=$1
  while restore_replica "$number" --leave-stopped; do
    add_replica "$number"
    number=$((number + 1))
    [ "$number" -lt 20 ] || fail "$number replicas have room"
  done
  REFUSED=$number
}

# One image, restored several times at once, side by side on both GPUs.
scenario_replicas() {
  local number gpus restores=() replicas=(1 2 3)
  need_gpus 2
  need_plugin
  start_in_namespaces --hidden 64
  dump_and_kill dump "$DIR/images"
  cp "$LOG" "$DIR/dumped"
  export AMDGPU_CRIU_REPLICAS=on AMDGPU_CRIU_IGNORE=vram_size
  for number in "${replicas[@]}"; do
    restore_replica "$number" &
    restores+=($!)
  done
  for number in "${!restores[@]}"; do
    wait "${restores[number]}" || fail "replica $((number + 1)) is not restored"
    add_replica $((number + 1))
  done
  gpus=$(for number in "${replicas[@]}"; do gpu_map "replica-$number"; done | sed 's/.*-> //' |
    sort | uniq -c)
  [ "$(wc -l <<<"$gpus")" -eq 2 ] || fail "not spread over two GPUs: $gpus"
  for number in "${replicas[@]}"; do
    replica "$number" goes_on "$STEP_BEFORE"
    replica "$number" all_memory_is_right
  done
  for number in "$DIR"/images/amdgpu-contents-*.img; do
    [ "$(part_cached "$number")" -gt 90 ] || fail "$number was not read through the page cache"
  done
  echo "replicas on" $gpus "go on from step $STEP_BEFORE, all memory right"
  fill_gpus_with_replicas 4
  grep -q 'MiB of VRAM are needed, .* MiB are free' "$DIR/criu-replica-$REFUSED.log" ||
    fail "replica $REFUSED is not refused for its memory"
  ! grep -q 'kernel operation' "$DIR/criu-replica-$REFUSED.log" ||
    fail "replica $REFUSED is refused late"
  wait_until 60 has_kfd_processes $((REFUSED - 1)) || fail "not $((REFUSED - 1)) processes use KFD"
  echo "replica $REFUSED is refused: the GPUs are full"
  for number in "${replicas[@]}"; do replica "$number" ends_well; done
}
