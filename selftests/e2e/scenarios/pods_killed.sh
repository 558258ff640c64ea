# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Checkpoints and restores of a pod that break at a step, as those of a container in killed.sh: the call of the
# kubelet, containerd, its shim, the runtime and criu are killed, the plugin fails, the deadline passes.

POD_ACTIONS=(EIO deadline kill runtime call shim containerd)

pod_victim() { # pod_victim ACTION
  case $1 in
    runtime) pgrep -x runtime ;;
    call) pgrep -f "e2e/cri (checkpoint|start)" ;;
    shim) pgrep -f '^/usr/bin/containerd-shim' ;;
    containerd) echo "$CONTAINERD" ;;
  esac
}

# The newest one, in a directory of the attempt, or where the shim keeps that of a failure.
pod_log() { # pod_log dump|restore
  find "$SCRATCH/tmp" "$SCRATCH/containerd" /run/containerd \
    \( -name 'io.containerd.snapshotter.*' -o -name rootfs \) -prune -o \
    \( -name "$1.log" -o -name "criu-$1.log" \) -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d ' ' -f 2
}

# CRI says that a paused container is running.
pod_says() {
  local state pid
  read -r state pid < <(cri status "$POD_CONTAINER")
  [ "$state" = CONTAINER_RUNNING ] || return
  state=$(ctr --namespace k8s.io tasks list | awk -v id="$POD_CONTAINER" '$1 == id { print tolower($3) }')
  echo "${state:-unknown} $pid"
}

killed_pod() {
  case $1 in
    checkpoint) exec timeout 120 "$PAYLOAD/e2e/cri" checkpoint "$POD_CONTAINER" "$DIR/new.tar" ;;
    restore) exec timeout 120 "$PAYLOAD/e2e/cri" start "$POD_CONTAINER" ;;
  esac
}

# After a kill of containerd the state is that which the next containerd finds.
judge_pod() { # judge_pod OPERATION STEP ACTION
  local reason=
  [ "$3" != containerd ] || start_containerd
  ! find_workload || LOG=/proc/$PID/root/tmp/workload.log
  STEP_OF_KILL=$(last_step 2>/dev/null)
  judge
  reason=$(known_half_of_pod "$@") ||
    if [[ $STATE == half* ]]; then HALF+=("$*: $STATE"); fi
  ! is_lost "$1, leave running" || HALF+=("$*: the container is lost")
  [ "$HAPPENED" = yes ] || HALF+=("$*: not reached: $(tail -n 2 "$DIR/engine.log")")
  echo "killed: containerd | $1 | $2 | $3 | $STATE | status $STATUS | | $reason"
}

# A half state that belongs to containerd, and the reason
known_half_of_pod() { # known_half_of_pod OPERATION STEP ACTION
  case $1:$3:$STATE in
    checkpoint:*': paused '*)
      ends_pause && pod_says | grep -q running && in_pod /usr/bin/true && wait_until 20 makes_steps || return 1
      echo 'containerd has frozen the container, and calls it paused, also if criu had thawed it: it refuses exec, and' \
        'no other checkpoint freezes it: write 1 to its cgroup.freeze, then ctr -n k8s.io tasks resume' ;;
    restore:*:*'the engine says: ')
      [[ $2 != RESTORE ]] || return 1
      echo 'criu has released the tasks, but not reported it: containerd does not list the process, which continues: kill it' ;;
    checkpoint:containerd:*'it does no steps, '*'engine: ')
      ctr --namespace k8s.io tasks resume "$POD_CONTAINER" && wait_until 20 makes_steps || return 1
      echo 'containerd has frozen the container, and calls it unknown when it is back: ctr -n k8s.io tasks resume' ;;
    checkpoint:shim:*'the engine says: ' | checkpoint:shim:*'it does no steps, '*'engine: ')
      echo 'containerd does not list a container without its shim, whose process continues or stays frozen: kill it' ;;
    *) return 1 ;;
  esac
}
# runc resumes only what is frozen, and containerd only what runc has resumed.
ends_pause() {
  echo 1 >"/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$PID/cgroup")/cgroup.freeze"
  ctr --namespace k8s.io tasks resume "$POD_CONTAINER"
}
makes_steps() { [ "$(last_step)" -gt "$STEP_OF_KILL" ]; }

pod_is_left() { [[ $STATE == runs* || $STATE == *paused* ]] && pod_says | grep -q running; }

remove_killed_pod() {
  local pid
  cri remove "$POD" >/dev/null
  for pid in $(pgrep -x 'gpu_chain|criu'); do kill -KILL "$pid"; done
  wait_until 30 no_gpu_traces && wait_until 30 vram_is_free || fail "$1: left: $(gpu_traces) $(vram_used)"
}

start_killed_pod() {
  BEFORE_DUMP=5 start_pod "first$((++POD_NUMBER))"
}

# The plugin sleeps for seconds only: on a busy machine the restore may be over before it is killed.
break_restore() { # break_restore STEP ACTION
  local try
  for try in 1 2 3; do
    pod_create "second$((++POD_NUMBER))" "$DIR/archive.tar" 1 "$POD_COMMAND"
    break_at "$1" "$2" restore
    [ "$HAPPENED" = no ] && ((try < 3)) || return 0
    remove_killed_pod "restore $*, not reached"
  done
}

scenario_pod_killed() {
  local step action HALF=() POD_NUMBER=0 KILLED_WITH=containerd PROBE='' BUNDLE=$DIR/bundle
  need_two_nodes
  need_pods
  mount_debugfs
  VRAM_FREE=$(vram_used)
  start_killed_pod
  for step in ${STEPS-PROCESS_INFO CHECKPOINT FINI}; do
    for action in ${ACTIONS-${POD_ACTIONS[@]}}; do
      break_at "$step" "$action" checkpoint
      judge_pod checkpoint "$step" "$action"
      pod_is_left && continue
      remove_killed_pod "checkpoint $step $action"
      start_killed_pod
    done
  done
  pod_checkpoint "$DIR/archive.tar" checkpoint
  remove_killed_pod "after the last checkpoint"
  for step in ${RESTORE_STEPS-RESTORE RESUME FINI}; do
    for action in ${ACTIONS-${POD_ACTIONS[@]}}; do
      break_restore "$step" "$action"
      judge_pod restore "$step" "$action"
      remove_killed_pod "restore $step $action"
    done
  done
  pod_start last "$DIR/archive.tar" 1 "$POD_COMMAND"
  goes_on "$(last_step)" "in the last pod"
  all_memory_is_right "in the last pod"
  [ ${#HALF[@]} -eq 0 ] || fail "${#HALF[@]} half states: $(printf '%s; ' "${HALF[@]}")"
}
