# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Checkpoints and restores of a container that break at each step: an error in the plugin, its deadline, signals
# to criu, and SIGKILL to the runtime, the engine and the engine's monitor. Afterwards the container runs, or
# nothing of it is left. `kill-table` makes the documented table of the lines "killed: ...".
#
# STEPS="NAME..." and ACTIONS="NAME..." select some.

KILLED_STEPS_WANTED=5
KILLED_SECONDS=20 # until the state is one of the two
KILLED_ACTIONS=(EIO deadline term kill runtime)

# An operation of the kernel, or a hook of CRIU, the first time that it occurs.
killed_steps() { # killed_steps WHAT
  local step steps
  steps=$(events_of "$1" | awk '{ name = $1 == "fill" ? "fill" : $2 } !seen[name]++ { print name }')
  for step in $steps; do
    [[ -n ${STEPS-} && " $STEPS " != *" $step "* ]] || echo "$step"
  done
}
killed_actions() {
  local action
  for action in "${KILLED_ACTIONS[@]}" "$@"; do
    [[ -n ${ACTIONS-} && " $ACTIONS " != *" $action "* ]] || echo "$action"
  done
}

# Engines pass no environment, so the switch is in the file of options. A restored task sees no process outside of
# its container, so its plugin sleeps while this scenario kills.
set_switch() { # set_switch STEP ACTION
  case $2 in
    EIO) printf 'test-fail = %s:1:EIO\n' "$1" ;;
    deadline) printf 'timeout = 4\ntest-fail = %s:1:sleep\n' "$1" ;;
    *) printf 'test-fail = %s:1:sleep\n' "$1" ;;
  esac >$OPTION_FILE
}

tasks_of_criu() { # those that are in a pid namespace of their own
  local pid
  for pid in $(pgrep -x criu; pgrep -x gpu_chain); do
    grep -qsE '^NSpid:.*[0-9]+.*[^0-9]1$' "/proc/$pid/status" && echo "$pid"
  done
}

# victim ACTION: the processes that the action kills
victim() {
  case $ENGINE:$1 in
    *:term | *:kill) pgrep -o -x criu ;;
    *:task) tasks_of_criu ;;
    *:engine) pgrep -x podman ;;
    *:monitor) pgrep -x conmon ;;
    podman:runtime) pgrep -x "$PODMAN_RUNTIME" ;;
    bundle:runtime) pgrep -x "$BUNDLE_RUNTIME" ;;
    pod:*) pod_victim "$1" ;;
  esac
}

signal_of() { [ "$1" = term ] && echo TERM || echo KILL; }

live_log() { # live_log dump|restore: CRIU's log, where it writes it
  case $ENGINE in
    bundle) echo "$DIR/work/$1.log" ;;
    podman) find "$SCRATCH/containers/overlay-containers" -name "$1.log" 2>/dev/null | head -n 1 ;;
    pod) pod_log "$1" ;;
  esac
}
is_at_switch() {
  local log
  log=$(live_log "$1")
  [ -n "$log" ] && grep -qs 'TEST SWITCH: fault at' "$log"
}
at_switch_or_ended() { is_at_switch "$1" || ! alive "$2"; }

killed_bundle() { # killed_bundle checkpoint|restore [OPTION]
  local options=(--image-path "$DIR/images" --work-path "$DIR/work")
  [ "$1" != restore ] || options+=(-d --bundle "$BUNDLE")
  timeout 120 "$BUNDLE_RUNTIME" --root /run/bundles "$1" "${@:2}" "${options[@]}" "$CONTAINER" </dev/null
}
killed_podman() {
  case $1 in
    checkpoint) podman_command container checkpoint --keep --compress none --export "$DIR/images/new.tar" "${@:2}" "$CONTAINER" ;;
    restore) podman_command container restore --keep --import "$DIR/images/container.tar" --name "$CONTAINER" ;;
  esac
}

# No deadline ends a restore whose tasks are resumed.
is_after_commit() { [ "$1:$2" = RESUME:deadline ]; }

# break_at STEP ACTION checkpoint|restore [OPTION]: sets HAPPENED
break_at() {
  local step=$1 action=$2 log=dump attempt pids
  shift 2
  [ "$1" = checkpoint ] || log=restore
  set_switch "$step" "$action"
  rm -f "$(live_log $log)"
  "killed_$ENGINE" "$@" >>"$DIR/engine.log" 2>&1 &
  attempt=$!
  HAPPENED=yes
  case $action in
    EIO | deadline) ;;
    *)
      wait_until 120 at_switch_or_ended $log $attempt && is_at_switch $log || HAPPENED=no
      mapfile -t pids < <(victim "$action")
      [ ${#pids[@]} -gt 0 ] && kill -"$(signal_of "$action")" "${pids[@]}" || HAPPENED=no
      ;;
  esac
  wait $attempt
  STATUS=$?
  case $ENGINE:$action in
    pod:EIO | pod:deadline) # containerd's shim removes the log of a pod; a fault there is an error of the call
      [ $STATUS -ne 0 ] || is_no_failure "$step:1" || is_after_commit "$step" "$action" || HAPPENED=no ;;
    pod:*) ;;
    *) is_at_switch $log || HAPPENED=no ;;
  esac
  BROKEN_AT=$(now)
  cp "$(live_log $log)" "$DIR/criu-last-$log.log" 2>/dev/null
  rm -f $OPTION_FILE
}

no_criu() { ! pgrep -x criu >/dev/null; }

find_workload() { # sets PID; false if there is none
  local pid
  PID=
  for pid in $(pgrep -x gpu_chain); do
    alive "$pid" && PID=$pid
  done
  [ -n "$PID" ]
}
does_steps_or_gone() { reached_or_gone "$1" || ! alive "$PID"; }

engine_says() { # STATE PID
  case $ENGINE in
    bundle) bundle_runtime state "$CONTAINER" 2>/dev/null | sed -n 's/^ *"\(status\|pid\)": "\?\([a-z0-9]*\).*/\2/p' | sort -r | paste -sd' ' ;;
    podman) podman_command inspect -f '{{.State.Status}} {{.State.Pid}}' "$CONTAINER" 2>/dev/null ;;
    pod) pod_says ;;
  esac
}

# judge: sets STATE
judge() {
  local from
  if ! wait_until $KILLED_SECONDS no_criu; then
    STATE="half: criu runs on: $(ps -C criu -o stat=,wchan:20= | head -n 1)"
    return
  fi
  if find_workload; then
    from=$(last_step)
    if ! wait_until $KILLED_SECONDS does_steps_or_gone $((from + KILLED_STEPS_WANTED)); then
      STATE="half: it does no steps, $(sed -n 's/^State:\t//p' "/proc/$PID/status"), wchan $(cat "/proc/$PID/wchan"), engine: $(engine_says)"
      return
    fi
  fi
  if find_workload; then
    STATE="runs on, $(seconds_since "$BROKEN_AT") s"
    if ! has_right_memory; then STATE="half: its memory is wrong"; fi
    [ "$(engine_says)" = "running $PID" ] || STATE="half: it runs, the engine says: $(engine_says)"
  elif wait_until $KILLED_SECONDS no_gpu_traces && wait_until $KILLED_SECONDS vram_is_free; then
    STATE="gone, $(seconds_since "$BROKEN_AT") s"
    [[ "$(engine_says)" != running* ]] || STATE="half: it is gone, the engine says: $(engine_says)"
    name_is_free || STATE="half: gone, but the next restore is refused"
  else
    STATE="half: it is gone, left: $(gpu_traces | head -n 3), $(vram_used) bytes of VRAM, before $VRAM_FREE"
  fi
}
name_is_free() {
  [ "$ENGINE" != bundle ] || bundle_runtime delete -f "$CONTAINER" >/dev/null 2>&1
  [ "$ENGINE" != bundle ] || [ ! -e "/run/bundles/$CONTAINER" ] && [ ! -e "$BUNDLE/criu-root" ]
}
has_right_memory() {
  local NEW before
  before=$(<"$LOG")
  kill -USR1 "$PID" && wait_until $STEP_SECONDS verdict_or_gone ${#before} && [[ ${NEW##*$'\nverify '} == ok* ]]
}

# is_lost OPERATION: a checkpoint has broken, the container is gone, and so is what was in it: no restore has brought it
# back. One that leaves it running may not end it at all.
is_lost() {
  [[ $STATE == gone* ]] || return 1
  case $1 in
    restore*) return 1 ;; # of images, which stay
    *'leave running') ;;
    *) [ "$PROBE" != 'complete images' ] ;;
  esac
}

# Before these steps of a restore have ended, there are no tasks that could be killed.
has_tasks() { [[ $1 != @(INIT|QUERY|SESSION) ]]; }

# A half state that belongs to another program, and the reason
known_half() { # known_half OPERATION STEP ACTION
  case $KILLED_WITH:$1:$STATE in
    podman:*:runs*)
      [ "$3" = monitor ] || return 1
      echo 'without conmon, podman refuses another checkpoint of the container' ;;
    podman:checkpoint:gone*)
      [[ $3 == @(runtime|engine) ]] || return 1
      echo 'the archive is missing, but podman keeps the images: podman container restore' ;;
    podman:restore:*'the engine says: created'*)
      echo 'the restore ends without podman, which does not list the process: kill it, then podman rm -f' ;;
    crun:restore:*'the engine says: ')
      [[ $2 == RESUME* || $2:$3 == FINI:@(kill|runtime) ]] || return 1
      echo 'crun lists a container when criu has reported its end, and before that the process continues: kill it' ;;
    crun:restore:*'the next restore is refused')
      echo 'crun leaves the mount criu-root in the bundle: umount and remove it' ;;
    runc:restore:*'the next restore is refused') echo 'runc 1.1 leaves its directory and the mount criu-root in it: umount and remove them' ;;
    runc:restore:*'the engine says: ')
      [[ $2:$3 == FINI:kill ]] || return 1
      echo 'criu has released the tasks, but not reported it: runc forgets the container, whose process continues' ;;
    *) return 1 ;;
  esac
}

remove_killed() {
  local pid
  case $ENGINE in
    bundle) bundle_runtime delete -f "$CONTAINER" ;;
    podman) # the first one fails if conmon is not there, and marks the container as ended
      pkill -KILL -x gpu_chain
      podman_command rm -f -t 0 "$CONTAINER" || podman_command rm -f -t 0 "$CONTAINER" ;;
  esac >>"$DIR/engine.log" 2>&1
  umount "/run/bundles/$CONTAINER/criu-root" "$BUNDLE/criu-root" 2>/dev/null
  rmdir "$BUNDLE/criu-root" 2>/dev/null
  rm -rf --one-file-system "/run/bundles/$CONTAINER"
  for pid in $(pgrep -x 'gpu_chain|criu'); do kill -KILL "$pid"; done
  wait_until 30 no_gpu_traces && wait_until 30 vram_is_free
}

# Images that a broken checkpoint has left are refused, or those of a complete container. CRIU's log names the size
# that files had.
probe_images() { # sets PROBE
  local size try
  PROBE='no images'
  case $ENGINE in
    bundle) [ -e "$DIR/images/inventory.img" ] || return ;;
    podman) [ -s "$DIR/images/new.tar" ] || { probe_images_of_podman; return; }
      mv "$DIR/images/new.tar" "$DIR/images/container.tar" ;;
  esac
  remove_killed || fail "the container cannot be removed: $(gpu_traces)"
  for try in 1 2; do
    BROKEN_AT=$(now)
    "killed_$ENGINE" restore >>"$DIR/engine.log" 2>&1 && break
    cp "$(live_log restore)" "$DIR/criu-probe.log" 2>/dev/null
    size=$(sed -n 's/.*has bad size [0-9]* (expect \([0-9]*\)).*/\1/p' "$DIR/criu-probe.log" | head -n 1)
    [ -n "$size" ] || break
    remove_killed
    truncate -s "$size" "$LOG"
  done
  judge
  case $STATE in
    runs*) PROBE='complete images' ;;
    gone*) PROBE='images that are refused' ;;
    *) PROBE="images: $STATE" ;;
  esac
}

# Without podman or its runtime, criu ends the checkpoint, whose images podman has not packed yet.
probe_images_of_podman() { # sets PROBE
  [[ $STATE == gone* ]] || return
  BROKEN_AT=$(now)
  podman_command container restore --keep "$CONTAINER" >>"$DIR/engine.log" 2>&1
  judge
  [[ $STATE != runs* ]] || PROBE='complete images'
}

report_killed() { # report_killed OPERATION STEP ACTION
  local reason=
  reason=$(known_half "$@") ||
    if [[ $STATE == half* || $PROBE == *half* ]]; then HALF+=("$*: $STATE${PROBE:+; $PROBE}"); fi
  ! is_lost "$1" || HALF+=("$*: the container is lost: $STATE; $PROBE")
  BROKEN["$1|$3"]+=
  if [ $HAPPENED = no ]; then
    [ "$3" = task ] && ! has_tasks "$2" || HALF+=("$*: not reached")
    STATE="not reached; $STATE"
  else
    BROKEN["$1|$3"]+=" $2"
  fi
  [ "$HAPPENED" = yes ] || tail -n 2 "$DIR/engine.log"
  echo "killed: $KILLED_WITH | $1 | $2 | $3 | $STATE | status $STATUS | $PROBE | $reason"
}

# each_action_has_happened: no column of the table is empty
each_action_has_happened() {
  local column
  [ ${#BROKEN[@]} -gt 0 ] || fail "nothing was broken: OPERATIONS=${OPERATIONS-} STEPS=${STEPS-} ACTIONS=${ACTIONS-}"
  for column in "${!BROKEN[@]}"; do
    [ -n "${BROKEN[$column]}" ] || fail "at no step: $column"
  done
}

start_killed() {
  remove_killed
  case $ENGINE in
    bundle) start_bundle $SECOND_MINOR gpu_chain ;;
    podman) start_podman $SECOND_MINOR gpu_chain ;;
  esac
  first_steps 5
}

kill_checkpoints() { # kill_checkpoints NAME [OPTION] -- STEP...
  local operation=$1 step action state options=()
  [ "$2" = -- ] || options=("$2")
  while [ "$1" != -- ]; do shift; done
  shift
  for step; do
    for action in $(killed_actions "${MORE_ACTIONS[@]}"); do
      rm -rf "$DIR/images" && mkdir -p "$DIR/images" "$DIR/work"
      break_at "$step" "$action" checkpoint "${options[@]}"
      judge
      state=$STATE
      PROBE=
      [[ $state == half* ]] || probe_images
      STATE=$state
      report_killed "$operation" "$step" "$action"
      [[ $state == runs* && $action != monitor ]] && find_workload || start_killed
    done
  done
}

kill_restores() { # kill_restores STEP...
  local step action
  for step; do
    for action in $(killed_actions task "${MORE_ACTIONS[@]}"); do
      truncate -s "$SIZE" "$LOG"
      break_at "$step" "$action" restore
      judge
      PROBE=
      report_killed restore "$step" "$action"
      remove_killed || fail "after $step $action: the container cannot be removed: $(gpu_traces)"
    done
  done
}

# killed ENGINE NAME: every step of each operation
killed() {
  local steps HALF=() MORE_ACTIONS=() SIZE
  local -A BROKEN=() # the steps of each operation and action
  ENGINE=$1 KILLED_WITH=$2 BUNDLE=$DIR/bundle
  need_two_nodes
  CRIU=$(command -v "$CRIU") # before its link is in PATH
  mount_debugfs
  [ "$ENGINE" != podman ] || MORE_ACTIONS=(engine monitor)
  VRAM_FREE=$(vram_used)
  start_killed
  mkdir -p "$DIR/images"
  printf 'test-fail = ioctl:0:EIO\n' >$OPTION_FILE
  mkdir -p "$DIR/work"
  "killed_$ENGINE" checkpoint --leave-running >>"$DIR/engine.log" 2>&1 || fail "no checkpoint"
  cp "$(live_log dump)" "$DIR/criu-events.log"
  mapfile -t steps < <(killed_steps events)
  [ ${#steps[@]} -gt 0 ] || fail "no steps"
  find_workload || fail "the container has ended"
  echo "checkpoint: ${steps[*]}"
  [[ ${OPERATIONS-leave} != *leave* ]] || kill_checkpoints "checkpoint, leave running" --leave-running -- "${steps[@]}"
  [[ ${OPERATIONS-stop} != *stop* ]] || kill_checkpoints "checkpoint" -- "${steps[@]}"
  if [[ ${OPERATIONS-restore} == *restore* ]]; then
    rm -rf "$DIR/images" && mkdir -p "$DIR/images"
    printf 'test-fail = ioctl:0:EIO\n' >$OPTION_FILE
    "killed_$ENGINE" checkpoint >>"$DIR/engine.log" 2>&1 || fail "no checkpoint"
    [ "$ENGINE" != podman ] || mv "$DIR/images/new.tar" "$DIR/images/container.tar"
    remove_killed
    SIZE=$(stat -c %s "$LOG")
    printf 'test-fail = ioctl:0:EIO\n' >$OPTION_FILE
    "killed_$ENGINE" restore >>"$DIR/engine.log" 2>&1 || fail "no restore"
    cp "$(live_log restore)" "$DIR/criu-events.log"
    mapfile -t steps < <(killed_steps events)
    [ ${#steps[@]} -gt 0 ] || fail "no steps of a restore"
    remove_killed
    echo "restore: ${steps[*]}"
    kill_restores "${steps[@]}"
    truncate -s "$SIZE" "$LOG"
    "killed_$ENGINE" restore >>"$DIR/engine.log" 2>&1 || fail "no restore after the broken ones"
    BROKEN_AT=$(now)
    judge
    [[ $STATE == runs* ]] || fail "after a restore: $STATE"
  fi
  [ ${#HALF[@]} -eq 0 ] || fail "${#HALF[@]} half states, the first: ${HALF[0]}"
  each_action_has_happened
}

scenario_killed_runc() { killed bundle runc; }
scenario_killed_crun() {
  BUNDLE_RUNTIME=crun
  killed bundle crun
}
scenario_killed_podman() { killed podman podman; }
