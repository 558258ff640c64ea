# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of Debian's HIP runtime, in a guest image that scripts/rocm makes: HIP names it.

# A persistent kernel runs from the beginning to the end, for a minute at least, so that every dump
# has its waves.
scenario_hip() {
  local begin=$SECONDS
  STEPS_WANTED=3
  need_gpus 2
  need_plugin
  start "$PAYLOAD/${HIP:-rocm}/bin/hip_programs"
  sed -n 's/^ready: //p' "$LOG"
  first_steps 2
  all_memory_is_right "before the dump"
  describe_workload
  dump_and_kill dump "$DIR/images"
  waves_are_saved "$DIR/images"
  restore_and_check restore "$DIR/images"
  dump_and_kill again "$DIR/images2"
  waves_are_saved "$DIR/images2"
  swap_gpus
  restore_and_check elsewhere "$DIR/images2"
  while ((SECONDS < begin + 60)); do
    goes_on "$(last_step)" "within a minute"
  done
  echo "the persistent kernel has run for $((SECONDS - begin)) s and answered $(last_step) times"
  ends_well "after the restores"
}

CASE_SECONDS=600 # of a library's test

# read_library: sets CASES, lines "PROGRAM CASES ENVIRONMENT AND OPTIONS OF CRIU", and the environment of LIBRARY's list
read_library() {
  local list=$PAYLOAD/libraries/$LIBRARY kind rest
  CASES=()
  while read -r kind rest; do
    case $kind in
      set) export "${rest?}" ;;
      dump) CASES+=("$rest") ;;
    esac
  done <"$list"
  ((${#CASES[@]})) || fail "$list names no case to dump"
}

in_case() { grep -qE '^(\[ RUN      \] |Running [^ ]+\.\.\.)' "$LOG" || gone "$PID"; }

# start_case PROGRAM CASES: sets PID and LOG, waits until a case has begun
start_case() {
  local options=(--gtest_filter="$2" --gtest_color=no)
  [[ $1 != */test_thrust_* ]] || options=(--sizes=default --verbose "$2")
  LOG=$DIR/${2//[\/.*]/-}.log
  first_pid_of_scenario
  : >"$LOG"
  setsid env "${ENVIRONMENT[@]}" "$1" "${options[@]}" </dev/null >"$LOG" 2>&1 &
  PID=$!
  PIDS+=("$PID")
  disown "$PID"
  wait_until $CASE_SECONDS in_case || fail "$2 does not begin"
}

# case_passes CASES WHEN: the summary says that some cases have passed, and none has failed.
case_passes() {
  wait_gone "$PID" $CASE_SECONDS || fail "$1 does not end $2"
  grep -qE '^(\[  PASSED  \]|Totals: 0 failures, 0 known failures, 0 errors, and) [1-9]' "$LOG" &&
    ! grep -q '^\[  FAILED  \]' "$LOG" || fail "$1 does not pass $2"
}

is_connected() { [[ -n $(ss --no-header --tcp state established) ]] || gone "$PID"; }

# sleep_in_case MICROSECONDS: or until the case ends
sleep_in_case() {
  local end=$(($(now) + $1)) left
  while ((left = end - $(now), left > 0)) && alive "$PID"; do
    sleep_us $((left < 500000 ? left : 500000))
  done
}

sleep_us() { read -rt "$(($1 / 1000000)).$(printf %06d $(($1 % 1000000)))" <>"$DIR/never"; }

group_gone() { ! pgrep -g "$PID" >/dev/null; }

count_waves() { # count_waves IMAGES: sets WAVES
  WAVES=$("$PAYLOAD/bin/saved_waves" "$1" | sed -n 's/^waves \([0-9]*\).*/\1/p')
  [[ $WAVES ]] || fail "the waves of $1 cannot be read"
}

# dump_until_waves NUMBER LOOKS: dumps, and again a little later while no wave is saved, at most LOOKS times, and kills
# the processes; sets WAVES. Fails if the case ends before. With connections one dump only: they stay locked after it.
dump_until_waves() {
  local look final=(--leave-stopped)
  ((!CONNECTS)) || final=()
  for ((look = 1; ; look++)); do
    rm -rf "$DIR/images$1"
    alive "$PID" && criu_dump "dump$1" "$DIR/images$1" "${final[@]}" "${DUMP_OPTIONS[@]}" || return
    count_waves "$DIR/images$1"
    ((WAVES == 0 && look < $2 && !CONNECTS)) || break
    kill -CONT -- "-$PID"
    sleep_us $((RANDOM % 500 * 1000))
  done
  ((CONNECTS)) || kill -KILL -- "-$PID"
  wait_until 60 group_gone || fail "the dumped processes do not end"
}

# dump_case PROGRAM CASE NUMBER MICROSECONDS: dumps the case that long after its start, or sooner if
# it has ended by then, as what it compiles is in a cache now; sets AFTER and WAVES. A case with TCP connections is
# dumped that long after it has them.
dump_case() {
  local try begin took
  AFTER=$4
  for try in 1 2 3 4 5 6 7 8; do
    start_case "$1" "$2"
    begin=$(now)
    ((!CONNECTS)) || wait_until $CASE_SECONDS is_connected || fail "$2 has no connections"
    sleep_in_case "$AFTER"
    took=$(($(now) - begin))
    ! dump_until_waves "$3" $((try > 3 ? 1 : 10)) || return 0
    gone "$PID" || fail "$2 cannot be dumped: $CRIU_ERROR"
    case_passes "$2" "before dump $try"
    AFTER=$(((took < AFTER ? took : AFTER) / 2))
  done
  fail "$2 ends too early for a dump"
}

# read_options WORD...: sets DUMP_OPTIONS, RESTORE_OPTIONS, CONNECTS, and ENVIRONMENT from words NAME=VALUE
read_options() {
  local word
  DUMP_OPTIONS=() RESTORE_OPTIONS=() ENVIRONMENT=() CONNECTS=0
  for word; do
    case $word in
      [A-Z]*=*) ENVIRONMENT+=("$word") ;;
      *) DUMP_OPTIONS+=("$word") ;;
    esac
    [[ $word != --tcp-established ]] || RESTORE_OPTIONS+=("$word") CONNECTS=1
  done
}

connections_are_saved() {
  compgen -G "$1/tcp-stream-*.img" >/dev/null || fail "$1 has no connection"
}

# RCCL's listening sockets do not share their addresses, so their ports are not free while connections that were
# closed have them, for a minute.
free_ports() { ss --kill --tcp state time-wait >/dev/null || fail "ss cannot end closed connections"; }

# Of tests of a library, each is dumped and killed at a random moment, and restored on the same or on the
# other GPU. It passes as it does undisturbed.
scenario_library() {
  local CASES AFTER WAVES DUMP_OPTIONS RESTORE_OPTIONS CONNECTS ENVIRONMENT
  local one program name options begin moment other when number=0
  need_gpus 2
  need_plugin
  read_library
  for one in "${CASES[@]}"; do
    read -r program name options <<<"$one"
    # shellcheck disable=SC2086 # options are words
    read_options $options
    start_case "$program" "$name"
    begin=$(now)
    case_passes "$name" undisturbed
    RANDOM=$((${SEED:-1} + ++number))
    moment=$((($(now) - begin) * (5 + RANDOM % 70) / 100))
    ((!CONNECTS)) || moment=$((RANDOM % 2000 * 1000))
    other=$((RANDOM % 2))
    dump_case "$program" "$name" $number $moment
    ((!CONNECTS)) || connections_are_saved "$DIR/images$number"
    unset AMDGPU_CRIU_MAP
    ((!other)) || swap_gpus
    free_ports
    criu_restore "restore$number" "$DIR/images$number" "${RESTORE_OPTIONS[@]}" ||
      fail "$name: criu restore ended with status $?"
    PIDS+=("$PID")
    case_passes "$name" "after a restore"
    when=beginning
    ((!CONNECTS)) || when="first connection"
    echo "$name passes${ENVIRONMENT:+ with ${ENVIRONMENT[*]}}: dumped $((AFTER / 1000)) ms after its" \
      "$when or later, with $WAVES waves${AMDGPU_CRIU_MAP:+, on the other GPU}"
    rm -rf "$DIR/images$number"
  done
}

need_rccl() { # need_rccl GPUS: for a training run
  export HSA_NO_SCRATCH_RECLAIM=1 # RCCL demands it
  START_SECONDS=900
  STEPS_WANTED=3
  need_gpus "$1"
  need_plugin
}

# dump_rccl WHAT, restore_rccl WHAT: the process and its connections, to and from DIR/images
dump_rccl() {
  criu_dump "dump$1" "$DIR/images" --ghost-limit 100000000 --tcp-established --link-remap ||
    fail "criu dump ended with status $?"
  connections_are_saved "$DIR/images"
}

restore_rccl() {
  free_ports
  criu_restore "restore$1" "$DIR/images" --tcp-established || fail "criu restore ended with status $?"
  PIDS+=("$PID")
}

# dump_in_collective NUMBER: dumps and restores, again while no dump has met waves; sets WAVES. With 2 GPUs, every
# second restore exchanges them.
dump_in_collective() {
  local try what
  for ((try = 1; try <= 15; try++)); do
    sleep_us $((RANDOM % 2000 * 1000)) # without this, each dump meets the same moment of a step
    what=$1-$try STEP_BEFORE=$(last_step)
    dump_rccl "$what"
    count_waves "$DIR/images"
    unset AMDGPU_CRIU_MAP
    ((RANKS > 2 || ($1 + try) % 2)) || swap_gpus
    restore_rccl "$what"
    goes_on "$STEP_BEFORE" "after restore $what"
    rm -r "$DIR/images"
    echo "dumped after step $STEP_BEFORE with $WAVES waves${AMDGPU_CRIU_MAP:+, GPUs exchanged}"
    [ "$WAVES" = 0 ] || return 0
  done
  fail "no dump has met waves"
}

# A training run by RANKS processes, a GPU each, whose gradients RCCL adds: dumped in the middle of collectives, its
# losses and weights are those of an undisturbed run, to the bit.
scenario_rccl_train() {
  local log steps number
  : "${RANKS:=2}"
  need_rccl "$RANKS"
  RANDOM=${SEED:-1}
  start "$PAYLOAD/models/train_rccl.py" "$RANKS"
  first_steps 3
  all_memory_is_right "before the dump"
  for number in 1 2 3; do dump_in_collective $number; done
  all_memory_is_right "after the restores"
  ends_well "after the restores"
  log=$LOG steps=$(last_step)
  LOG_NAME=undisturbed start "$PAYLOAD/models/train_rccl.py" "$RANKS" "$steps"
  wait_gone "$PID" $((steps * 60)) || fail "the undisturbed run does not end"
  same_training "$LOG" "$log"
}
