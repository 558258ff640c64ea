# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Interrupts dump and restore at the plugin's hooks, operations of the kernel, and fills. SEED
# selects at random one event in three, which fails once, the action at restore, and the CRIU version
# for each kind. The campaign `faults` runs all kinds with each CRIU version, and with EVERY=1 each
# occurrence of all events, with each action.

# Each step needs the previous one, so this many show as much as more.
STEPS_AFTER_FAULT=20
FAULT_CRIUS=(criu /opt/criu-4.1.1/criu /opt/criu-4.3/criu)

events_of() { sed -n 's/.*(amdgpu): TEST SWITCH: event //p' "$DIR/criu-$1.log"; }

# faults_of WHAT KIND...: EVENT:NUMBER of the events of that run
faults_of() {
  local what=$1
  shift
  events_of "$what" | awk -v every="$EVERY" -v kinds=" $* " '
    index(kinds, " " $1 " ") {
      name = $1 == "fill" ? "fill" : $2
      if (++number[name] == 1 || every) print name ":" number[name] }'
}

# choose_faults COMMAND...: reduces the array `faults` of its caller to a fifth of those for which the command succeeds,
# but keeps at least one.
choose_faults() {
  local fault chosen=()
  for fault in "${faults[@]}"; do
    "$@" "$fault" && chosen+=("$fault")
  done
  faults=("${chosen[@]}") chosen=()
  [ ${#faults[@]} -ge 1 ] || fail "there is no event that counts"
  for fault in "${faults[@]}"; do
    ((EVERY || RANDOM % 5 == 0)) && chosen+=("$fault")
  done
  ((${#chosen[@]} > 0)) || chosen=("${faults[RANDOM % ${#faults[@]}]}")
  faults=("${chosen[@]}")
}

# Reduces the array `actions` of its caller to one; keeps all with EVERY=1.
choose_one() {
  ((EVERY)) || actions=("${actions[RANDOM % ${#actions[@]}]}")
}

seed_chance() {
  RANDOM=$(number_of_seed 32768)
  echo "SEED=$SEED"
}

# with_fault EVENT:NUMBER:ACTION COMMAND...
with_fault() {
  local fault=$1 status
  shift
  export AMDGPU_CRIU_TEST_FAIL=$fault
  "$@"
  status=$?
  unset AMDGPU_CRIU_TEST_FAIL
  return $status
}

# had_its_fault WHAT
had_its_fault() {
  grep -q 'TEST SWITCH: fault at' "$DIR/criu-$1.log" || fail "$1: nothing was made to fail"
}

# with_each_criu COMMAND KIND...: runs COMMAND KIND... with each CRIU version, with the kinds it was
# chosen for
with_each_criu() {
  local command=$1 kind chosen words
  local -A kinds=()
  shift
  seed_chance
  for kind; do
    chosen=${FAULT_CRIUS[RANDOM % ${#FAULT_CRIUS[@]}]}
    kinds[$chosen]+="$kind "
    echo "$kind with $chosen"
  done
  for CRIU in "${!kinds[@]}"; do
    read -r -a words <<<"${kinds[$CRIU]}"
    "$command" "${words[@]}"
  done
}

start_fault_tree() {
  STEPS_WANTED=$STEPS_AFTER_FAULT
  need_gpus 2
  need_plugin
  mount_debugfs
  start_tree "gpu_chain --gpus 2" "render_group family"
  for_each first_steps 20
}

# --- dump: the processes go on

member_goes_on_after() { goes_on "$(last_step)" "$1"; }

# Events whose failure has no effect: those that closing the session undoes, those after the end of
# all work, and the query whether the kernel has the series, which the next operation answers, too.
is_no_failure() {
  case $1 in
    UNPAUSE:* | FINI:* | QUERY:1) return 0 ;;
  esac
  return 1
}

fail_dump() { # fail_dump EVENT:NUMBER ACTION
  local what=$1:$2
  PID=$ROOT
  if with_fault "$what" criu_dump "$what" "$DIR/images" --leave-running; then
    is_no_failure "$1" || fail "$what: the dump succeeded"
  fi
  had_its_fault "$what"
  for_each member_goes_on_after "$what"
  rm -rf "$DIR/images" "$DIR/criu-$what.log"
}

faults_at_dump() { # faults_at_dump KIND...
  local fault faults count=0
  PID=$ROOT
  with_fault ioctl:0:EIO criu_dump events "$DIR/images" --leave-running ||
    fail "criu dump ended with status $?"
  for_each member_goes_on_after "a dump"
  mapfile -t faults < <(faults_of events "$@")
  [ ${#faults[@]} -ge 1 ] || fail "no events of $*"
  choose_faults true
  for fault in "${faults[@]}"; do
    fail_dump "$fault" EIO
    count=$((count + 1))
    # If CRIU is killed later than that, its parasite code stays in the process.
    case $fault in
      CHECKPOINT_DEVICES:* | HANDLE_DEVICE_VMA:* | CHECKPOINT:*)
        fail_dump "$fault" kill
        count=$((count + 1))
        ;;
    esac
  done
  echo "$CRIU interrupted $count times, at ${faults[*]}: the processes did $STEPS_WANTED steps each time"
  for_each all_memory_is_right "after $count failed dumps"
}

faults_dump() { # faults_dump COMMAND...
  start_fault_tree
  "$@"
  dump_and_kill_tree dump "$DIR/images"
  restore_and_check_tree restore "$DIR/images"
  tree_ends_well "after failed dumps"
}

scenario_faults_dump() { faults_dump with_each_criu faults_at_dump hook ioctl; }
scenario_faults_dump_criu() { faults_dump faults_at_dump hook ioctl; }
scenario_faults_dump_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  faults_dump faults_at_dump hook ioctl
}
scenario_faults_dump_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  faults_dump faults_at_dump hook ioctl
}

# --- a signal at any step of a dump: the process continues at once

# On a real machine one second; an emulated processor is slower.
PROMPT_MS=3000

# Of CRIU's log: milliseconds from the fault to its last line, by when everything is undone.
ms_after_fault() { # ms_after_fault WHAT
  awk '/^\([0-9.]+\)/ { now = substr($1, 2) + 0 }
    /TEST SWITCH: fault at/ { fault = now }
    END { printf "%d", (now - fault) * 1000 }' "$DIR/criu-$1.log"
}

signal_dump() { # signal_dump EVENT:NUMBER
  local what=$1:term ms
  ! with_fault "$what" criu_dump "$what" "$DIR/images" --leave-running || fail "$what: the dump succeeded"
  had_its_fault "$what"
  ms=$(ms_after_fault "$what")
  [ "$ms" -le $((PROMPT_MS * PATIENCE)) ] || fail "$what: the process was stopped for $ms ms"
  [ "$ms" -le "$LONGEST" ] || LONGEST=$ms
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "$what: GPU images are left"
  goes_on "$(last_step)" "$what"
  rm -rf "$DIR/images" "$DIR/criu-$what.log"
}

# Not after everything is done: a signal there ends CRIU.
comes_early() { [[ $1 != @(UNPAUSE|FINI|DUMP_FINISH):* ]]; }

scenario_faults_signals() {
  local fault faults count=0 LONGEST=0
  STEPS_WANTED=$STEPS_AFTER_FAULT
  need_gpus 1
  need_plugin
  seed_chance
  start gpu_chain
  first_steps 20
  with_fault ioctl:0:EIO criu_dump events "$DIR/images" --leave-running ||
    fail "criu dump ended with status $?"
  rm -r "$DIR/images"
  mapfile -t faults < <(faults_of events hook ioctl)
  [ ${#faults[@]} -ge 5 ] || fail "only ${#faults[@]} events"
  choose_faults comes_early
  for fault in "${faults[@]}"; do
    signal_dump "$fault"
    count=$((count + 1))
  done
  echo "SIGTERM $count times, at ${faults[*]}: at most $LONGEST ms until all was undone"
  all_memory_is_right "after $count signals"
  ends_well "after $count signals"
}

# --- restore: nothing is left

# Processes that use a GPU, and open sessions and dma-bufs.
gpu_traces() {
  find /sys/class/kfd/kfd/proc -mindepth 1 -maxdepth 1 -printf 'KFD process %f\n' 2>/dev/null
  grep -hs '^pid' /sys/kernel/debug/dri/*/amdgpu_gem_info | sort -u
  find /proc/[0-9]*/fd \( -lname '*gpu-criu-session*' -o -lname '/dmabuf:*' -o -lname /dev/kfd \
    -o -lname '/dev/dri/*' \) -printf '%p: %l\n' 2>/dev/null
  ps -C criu,amdgpu-criu -o pid=,ppid=,stat=,wchan:20=,args= | sed 's/^/process /'
}
no_gpu_traces() { [ -z "$(gpu_traces)" ]; }

vram_used() { cat /sys/class/drm/card*/device/mem_info_vram_used | awk '{ sum += $1 } END { print sum }'; }
vram_is_free() { [ "$(vram_used)" -le "$VRAM_FREE" ]; }

is_dead() { gone "$PID"; }

nothing_is_left() { # nothing_is_left WHAT
  wait_until 15 for_each is_dead || fail "$1: process $PID runs"
  wait_until 15 no_gpu_traces || fail "$1: left: $(gpu_traces | head -n 6)"
  wait_until 15 vram_is_free || fail "$1: $(vram_used) bytes of VRAM in use, before $VRAM_FREE"
}

remember_log_size() { LOG_SIZE[MEMBER]=$(stat -c %s "$LOG"); }
cut_log() { truncate -s "${LOG_SIZE[MEMBER]}" "$LOG"; }  # CRIU compares sizes

kill_member() { kill -KILL "$PID" 2>/dev/null; }
kill_tree() {
  for_each kill_member || true
  wait_until 20 for_each is_dead || fail "$1: the processes do not end"
  for_each cut_log
}

# The last line of ours is the reason, in whatever process the event was.
ends_with_reason() { # ends_with_reason WHAT
  local last
  last=$(grep '(amdgpu)' "$DIR/criu-$1.log" | tail -n 1)
  [[ $last == *"the restore has failed: "*"injected failure of "* ]] ||
    fail "$1: the last line does not say what failed: $last"
}

fail_restore() { # fail_restore EVENT:NUMBER ACTION
  local what=$1:$2
  PID=$ROOT
  if with_fault "$what" criu_restore "$what" "$DIR/images"; then
    is_no_failure "$1" || fail "$what: the restore succeeded"
    kill_tree "$what"
  fi
  had_its_fault "$what"
  nothing_is_left "$what"
  case $what in # other failures are in no task, or CRIU before 4.3 ignores them
    RESTORE_EXT_FILE:*:EIO | UPDATE_VMA_MAP:*:EIO | RESTORE:*:EIO | fill:*:EIO) ends_with_reason "$what" ;;
  esac
  for_each cut_log
  if [ "$EVERY" -ne 0 ]; then
    criu_restore again "$DIR/images" || fail "$what: the next restore ended with status $?"
    kill_tree "$what"
  fi
  rm -f "$DIR/criu-$what.log"
}

is_of_restore() { # is_of_restore EVENT:NUMBER ACTION
  case $1:$2 in
    FINI:*) return 1 ;; # all is done
    *:EIO) return 0 ;;
    INIT:*) return 1 ;; # nothing is there yet
    RESUME_DEVICES_LATE:[!1]*) return 1 ;; # complete tasks continue when CRIU dies
    RESTORE_EXT_FILE:* | UPDATE_VMA_MAP:* | RESUME_DEVICES_LATE:* | fill:*) return 0 ;;
  esac
  [ "$EVERY" -ne 0 ]
}

# has_actions EVENT:NUMBER: sets the array `actions` of its caller
has_actions() {
  local action
  actions=()
  for action in EIO kill kill-criu; do
    is_of_restore "$1" $action && actions+=("$action")
  done
  ((${#actions[@]} > 0))
}

faults_at_restore() { # faults_at_restore KIND...
  local fault faults count=0 action actions
  rm -rf "$DIR/images"
  dump_and_kill_tree dump "$DIR/images"
  for_each remember_log_size
  nothing_is_left dump
  PID=$ROOT
  with_fault ioctl:0:EIO criu_restore events "$DIR/images" ||
    fail "criu restore ended with status $?"
  PIDS+=("$ROOT" "${TREE[@]}")
  kill_tree "the first restore"
  mapfile -t faults < <(faults_of events "$@")
  [ ${#faults[@]} -ge 1 ] || fail "no events of $*"
  choose_faults has_actions
  for fault in "${faults[@]}"; do
    has_actions "$fault"
    choose_one
    for action in "${actions[@]}"; do
      fail_restore "$fault" "$action"
      count=$((count + 1))
    done
  done
  echo "$CRIU interrupted $count times, at ${faults[*]}: nothing was left"
  restore_and_check_tree restore "$DIR/images"
}

faults_restore() { # faults_restore COMMAND...
  VRAM_FREE=$(vram_used)
  LOG_SIZE=()
  start_fault_tree
  "$@"
  tree_ends_well "after failed restores"
}

scenario_faults_restore() { faults_restore with_each_criu faults_at_restore hook ioctl fill; }
scenario_faults_restore_criu() { faults_restore faults_at_restore hook ioctl fill; }
scenario_faults_restore_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  faults_restore faults_at_restore hook ioctl fill
}
scenario_faults_restore_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  faults_restore faults_at_restore hook ioctl fill
}

# --- a GPU reset in the middle loses no more than the state on the GPU

resets_done() { dmesg | grep -c 'GPU reset([0-9]*) succeeded'; }

# reset_gpu: resets the GPU and checks that the driver reports success
reset_gpu() {
  local before file answer
  before=$(resets_done)
  file=$(compgen -G '/sys/kernel/debug/dri/*/amdgpu_gpu_recover' | head -n 1)
  answer=$(cat "$file") || fail "the GPU cannot be reset"
  [ "$answer" = 0 ] || fail "the reset of the GPU ended with $answer"
  [ "$(resets_done)" -eq $((before + 1)) ] ||
    fail "$(resets_done) resets after this one, $before before"
}

fault_or_end() { # fault_or_end WHAT PROCESS
  grep -qs 'TEST SWITCH: fault at' "$DIR/criu-$1.log" || ! kill -0 "$2" 2>/dev/null
}

# reset_at EVENT[:NUMBER] COMMAND WHAT...: resets the GPU while the command sleeps at EVENT. Returns
# its status
reset_at() {
  local event=$1 what=$3 command
  shift
  [[ $event == *:* ]] || event+=:1
  with_fault "$event:sleep" "$@" &
  command=$!
  wait_until 120 fault_or_end "$what" $command || fail "$what: the event $event does not occur"
  reset_gpu
  wait $command
}

start_reset_tree() {
  start_tree "gpu_chain" "render_chain"
  for_each first_steps 20
  PID=$ROOT
}

# A reset loses memory of a KFD process, which is then not dumped, and evicts its queues forever. It loses what a
# restore has filled.
as_expected() { # as_expected WHAT STATUS
  [ "$2" -eq 1 ] || fail "$1: status $2, expected 1"
  had_its_fault "$1"
  grep -q 'Error.*(amdgpu)' "$DIR/criu-$1.log" ||
    fail "$1: the log does not say what failed: $(grep Error "$DIR/criu-$1.log" | tail -n 4)"
}

reset_in_restore() { # reset_in_restore EVENT
  local status
  PID=$ROOT
  reset_at "$1" criu_restore "restore-$1" "$DIR/images"
  status=$?
  as_expected "restore-$1" $status
  nothing_is_left "restore with a reset at $1"
  for_each cut_log
  echo "restore with a reset at $1: status $status, nothing left"
}

need_resets() {
  need_gpus 1
  need_plugin
  seed_chance
  # In a hive without a PSP the driver does not survive it.
  [ "$(gpu_count)" -eq 1 ] || skip "needs a single GPU, this machine has $(gpu_count)"
  mount_debugfs
  allow_complaint 'GPU reset begin'
  # A reset loses page tables, and a queue of KFD may still run.
  allow_complaint 'page fault \(src_id|VM fault: VMID [0-9]+ cannot (read|write) 0x[0-9a-f]+: not mapped'
  LOG_SIZE=()
  VRAM_FREE=$(vram_used)
}

# At one random operation of the dump and one of the restore; with EVERY=1 at all of them.
scenario_faults_reset() {
  local event status actions=(PROCESS_INFO CHECKPOINT DMABUF)
  need_resets
  choose_one
  for event in "${actions[@]}"; do
    start_reset_tree
    reset_at $event criu_dump "dump-$event" "$DIR/images" --leave-running
    status=$?
    as_expected "dump-$event" $status
    for_each kill_member || true
    wait_until 20 for_each is_dead || fail "$event: the processes do not end"
    nothing_is_left "dump with a reset at $event"
    echo "dump with a reset at $event: status $status, nothing left"
    rm -rf "$DIR/images" "$DIR"/workload*.log
  done
  start_reset_tree
  dump_and_kill_tree dump "$DIR/images"
  for_each remember_log_size
  actions=(RESTORE DMABUF RESUME)
  choose_one
  for event in "${actions[@]}"; do reset_in_restore $event; done
  restore_and_check_tree restore "$DIR/images"
  tree_ends_well "after resets"
}

# A reset loses memory when the state of one process is saved, and before any memory is copied.
scenario_faults_reset_saved() {
  need_resets
  start_tree "render_chain" "render_chain"
  for_each first_steps 20
  PID=$ROOT
  reset_at CHECKPOINT:2 criu_dump dump-saved "$DIR/images" --leave-running
  as_expected dump-saved $?
  grep -q 'Error.*(amdgpu).*was reset during the dump, and its memory was lost' "$DIR/criu-dump-saved.log" ||
    fail "$(grep Error "$DIR/criu-dump-saved.log" | tail -n 4)"
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "GPU images are left"
  for_each kill_member || true
  wait_until 20 for_each is_dead || fail "the processes do not end"
  nothing_is_left "dump with a reset after CHECKPOINT"
}

# When all contents are filled, a reset loses them: before CRIU's last hook, and in RESUME. The error names the GPU.
scenario_faults_reset_filled() {
  local event
  need_resets
  start_tree "render_chain"
  for_each first_steps 20
  PID=$ROOT
  dump_and_kill_tree dump "$DIR/images"
  for_each remember_log_size
  for event in RESUME_DEVICES_LATE RESUME; do
    reset_in_restore $event
    grep -q 'Error.*(amdgpu).*was reset during the restore, and its memory was lost' "$DIR/criu-restore-$event.log" ||
      fail "$event: $(grep Error "$DIR/criu-restore-$event.log" | tail -n 4)"
  done
  restore_and_check_tree restore "$DIR/images"
  tree_ends_well "after resets"
}
