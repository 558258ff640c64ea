# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# amdgpu-criu suspend: the VRAM of a process in host memory, while another process uses the GPU.

# Sets MOST_OF_VRAM to more than half of the VRAM of the smallest GPU, in MiB, or to 1 GiB if that is less: the CPU
# reads VRAM slowly.
need_vram() {
  need_gpus "$1"
  MOST_OF_VRAM=$(sort -n /sys/class/drm/card*/device/mem_info_vram_total | awk 'NR == 1 { print int($1 / 2 ^ 21) + 2 }')
  FITS_TWICE=
  [ "$MOST_OF_VRAM" -le 1024 ] || MOST_OF_VRAM=1024 FITS_TWICE=yes
}

# state_is NAME: checks the state of PID
state_is() {
  "$TOOL" state --pid "$PID" --json >"$DIR/state.json" || fail "state: status $?"
  json "$DIR/state.json" "it['state'] == '$1'"
}

refuses() { # refuses TEXT COMMAND: the tool refuses with status 1 and a reason that has the text
  local status=0
  "$TOOL" "$2" --pid "$PID" >"$DIR/refusal" 2>&1 || status=$?
  [ $status -eq 1 ] || fail "$2 ended with status $status, expected a refusal with: $1"
  [[ $(<"$DIR/refusal") == *"$1"* ]] || fail "$2: expected '$1': $(<"$DIR/refusal")"
  echo "refused: $(<"$DIR/refusal")"
}

suspend() { # suspends PID; sets USED to the VRAM in use after it
  local before begin=${EPOCHREALTIME/./}
  before=$(vram_used)
  "$TOOL" suspend --pid "$PID" >"$DIR/freeze" || fail "suspend: status $?"
  state_is suspended
  USED=$(vram_used)
  echo "suspended after $(seconds_since "$begin") s: VRAM in use $(mebibytes "$before") MiB, now $(mebibytes "$USED") MiB"
}

resume() {
  local begin=${EPOCHREALTIME/./}
  "$TOOL" resume --pid "$PID" || fail "resume: status $?"
  state_is running
  echo "resumed after $(seconds_since "$begin") s: VRAM in use $(mebibytes "$(vram_used)") MiB"
}

# How much work the compute rings have done. Queues of KFD are none of them.
compute_jobs() {
  local number sum=0
  mount_debugfs
  for number in $(cat /sys/kernel/debug/dri/*/amdgpu_fence_info |
    awk '/^--- ring/ { compute = /\(comp/ } compute && /^Last signaled fence/ { print $NF }'); do
    sum=$((sum + number))
  done
  echo $sum
}

start_suspendable() {
  start gpu_chain --vram $MOST_OF_VRAM
  first_steps 10
  VRAM_BEFORE=$(vram_used)
}

# Another process with as much VRAM: it ends by itself.
neighbour() { "$PAYLOAD/bin/gpu_chain" --vram $MOST_OF_VRAM --steps 20 >"$DIR/neighbour.log" 2>&1; }

# Without a suspended process, it has no room.
has_no_room() {
  ! neighbour || fail "two processes have more VRAM than there is"
  grep 'cannot allocate [0-9]* bytes of vram' "$DIR/neighbour.log" || fail "the neighbour, beside a process that runs: $(tail -n 3 "$DIR/neighbour.log")"
}

scenario_suspend() {
  local jobs
  need_vram 1
  start_suspendable
  [ "$FITS_TWICE" ] || has_no_room
  suspend
  [ $((VRAM_BEFORE - USED)) -ge $((MOST_OF_VRAM << 20)) ] || fail "the VRAM is not given back"
  # What the CPU does not see is compared when it is back.
  json "$DIR/state.json" "it['hashed'] >= 2 * 2**20"
  makes_no_progress 1
  refuses "is suspended, not frozen" thaw
  refuses "frozen or suspended already" suspend
  refuses_dump suspended
  neighbour || fail "the neighbour: status $?: $(tail -n 3 "$DIR/neighbour.log")"
  grep -q '^final ok' "$DIR/neighbour.log" || fail "the neighbour: $(tail -n 3 "$DIR/neighbour.log")"
  jobs=$(compute_jobs)
  resume
  [ "$(compute_jobs)" -gt "$jobs" ] || fail "the GPU has compared nothing"
  refuses "neither frozen nor suspended" resume
  survives "after resume"
  ends_well "after resume"
}

# flip_hidden_word: changes a word of the VRAM that gpu_chain fills and the CPU does not see, or changes it back
flip_hidden_word() {
  mount_debugfs
  python3 - "$DIR/place" <<'END'
import glob, os, struct, sys
MASK = (1 << 64) - 1
def mix(value):  # as pattern.h does
    value = (value + 0x9e3779b97f4a7c15) & MASK
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb & MASK
    return value ^ (value >> 31)
def find():
    seed = mix(2)  # of the second BO
    page = struct.pack("<Q", mix(seed ^ 0x3000 // 8))
    for path in glob.glob("/sys/kernel/debug/dri/*/amdgpu_vram"):
        vram = os.open(path, os.O_RDONLY)
        for place in range(0, os.fstat(vram).st_size, 4096):
            if os.pread(vram, 8, place) == page:
                return path, place
    sys.exit("the memory of gpu_chain is not found")
if not os.path.exists(sys.argv[1]):
    print(*find(), file=open(sys.argv[1], "w"))
path, place = open(sys.argv[1]).read().split()
vram, place = os.open(path, os.O_RDWR), int(place)
word, = struct.unpack("<I", os.pread(vram, 4, place))
os.pwrite(vram, struct.pack("<I", word ^ 0x10), place)
END
}

scenario_frozen_memory() {
  need_gpus 1
  start gpu_chain
  first_steps 10
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  state_is frozen
  json "$DIR/state.json" "it['hashed'] >= 2 * 2**20"
  flip_hidden_word || fail "no memory is changed"
  refuses "is not what it was" thaw
  state_is frozen
  makes_no_progress 1
  flip_hidden_word || fail "no memory is changed back"
  "$TOOL" thaw --pid "$PID" || fail "thaw: status $?"
  survives "after a refused thaw"
  ends_well "after a refused thaw"
}

scenario_suspend_refused() {
  local pid=$$ log
  need_vram 1
  start_suspendable
  suspend
  log=$LOG pid=$PID
  LOG_NAME=neighbour start gpu_chain --vram $MOST_OF_VRAM
  PID=$pid LOG=$log
  refuses "MiB of VRAM of GPU" resume
  state_is suspended
  kill -KILL "${PIDS[-1]}"
  wait_until 20 has_room || fail "$(vram_used) bytes of VRAM in use"
  resume
  survives "after a refused resume"
  fill_memory
  refuses "does not fit into host memory" suspend
  rm "$DIR/shm/fill"
  state_is running
  survives "after a refused suspend"
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  state_is frozen
  refuses "is frozen, not suspended" resume
  "$TOOL" thaw --pid "$PID" || fail "thaw: status $?"
  ends_well "after refusals"
}
has_room() { [ "$(vram_used)" -le $((USED + (1 << 20))) ]; }

# Leaves less than the VRAM of the workload. While memory is filled, the kernel makes more available.
fill_memory() {
  local more
  mkdir "$DIR/shm"
  mount -t tmpfs -o size=100% suspend "$DIR/shm"
  CLEANERS+=(unmount_memory)
  while more=$(($(mebibytes_available) - MOST_OF_VRAM + 10)) && [ $more -gt 0 ]; do
    head -c ${more}M /dev/zero >>"$DIR/shm/fill" || fail "the memory cannot be filled"
  done
}
mebibytes_available() { awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo; }
unmount_memory() { umount -l "$DIR/shm"; }

scenario_suspend_killed() {
  need_vram 1
  start_suspendable
  suspend
  read_holder
  kill -KILL "$HOLDER"
  wait_gone "$HOLDER" 60 || fail "the holder does not end"
  state_is running
  survives "after the end of the holder"
  suspend
  read_holder
  kill -KILL "$PID"
  wait_gone "$PID" 20 || fail "a suspended process that was killed does not end"
  wait_gone "$HOLDER" 60 || fail "the holder outlives what it has suspended"
  LOG_NAME=another start_suspendable
  ends_well "after the end of a suspended process"
}

scenario_suspend_render() {
  need_gpus 1
  start render_chain
  first_steps 10
  suspend
  makes_no_progress 1
  resume
  survives "after resume"
  ends_well "after resume"
}

scenario_suspend_two_gpus() {
  local before
  need_vram 2
  start gpu_chain --gpus 2 --vram $MOST_OF_VRAM
  first_steps 10
  before=$(vram_used)
  suspend
  [ $((before - USED)) -ge $((2 * MOST_OF_VRAM << 20)) ] || fail "the VRAM is not given back"
  resume
  survives "after resume"
  ends_well "after resume"
}
