# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What CRIU announces, and when: action scripts, status, answers of `criu service`; restores that wait for
# their program, that take too long and that are cancelled.

# An action script that records what it is called for, and fails at the action FAIL_AT.
make_action_script() { # make_action_script [FAIL_AT]
  cat >"$DIR/action" <<END
#!/bin/sh
echo "\$CRTOOLS_SCRIPT_ACTION" >>"$DIR/actions"
[ "\$CRTOOLS_SCRIPT_ACTION" != "${1-}" ]
END
  chmod +x "$DIR/action"
  : >"$DIR/actions"
}
has_acted() { grep -q "^$1\$" "$DIR/actions"; }

damage_last_chunk() { # damage_last_chunk FILE: the header has the end of the data
  python3 - "$1" <<'END'
import struct, sys
with open(sys.argv[1], "r+b") as file:
    data = file.read()
    at = struct.unpack("<8Q", data[:64])[2] - 1
    while data[at] == 0:
        at -= 1
    file.seek(at)
    file.write(bytes([data[at] ^ 1]))
END
}

# Prints the CRIU version that SEED selects, or all with TURNS=all.
crius_of_this_turn() {
  if [ "${TURNS-}" = all ]; then
    printf '%s\n' "${FAULT_CRIUS[@]}"
  else
    echo "${FAULT_CRIUS[$(number_of_seed ${#FAULT_CRIUS[@]})]}"
  fi
}

# ends_with OPERATION PHASE [TEXT]: of the lines that amdgpu.status-fd got, which are all JSON of that operation
ends_with() {
  python3 - "$DIR/status" "$@" <<'END' || fail "the status ends otherwise than with $*: $(tail -n 2 "$DIR/status")"
import json, sys
file, operation, phase, *text = sys.argv[1:]
lines = [json.loads(line) for line in open(file)]
last = lines[-1]
sys.exit(not (all(line["operation"] == operation for line in lines) and last["phase"] == phase and
              all(word in last.get("reason", "") for word in text)))
END
}

# Damage at the very end of the contents is found before any script runs after the restore.
scenario_commit_point() {
  local contents version
  need_gpus 1
  need_plugin
  start gpu_chain --vram 64
  first_steps "$BEFORE_DUMP"
  export AMDGPU_CRIU_STATUS_FD=9
  exec 9>"$DIR/status"
  dump_and_kill dump "$DIR/images"
  ends_with dump succeeded
  contents=$(compgen -G "$DIR/images/amdgpu-contents-*.img")
  make_action_script
  cp --sparse=always "$contents" "$DIR/whole"
  damage_last_chunk "$contents"
  for version in $(crius_of_this_turn); do
    exec 9>"$DIR/status"
    ! CRIU=$version criu_restore damaged "$DIR/images" --action-script "$DIR/action" --pidfile "$DIR/pid" ||
      fail "$version: damaged contents were restored"
    grep -q 'the restore has failed: .*checksum' "$DIR/criu-damaged.log" || fail "$version: no reason"
    ! has_acted post-restore || fail "$version: post-restore ran although contents are damaged"
    [ ! -e "$DIR/pid" ] || fail "$version: a pidfile was written although contents are damaged"
    nothing_runs "$version"
    ends_with restore failed checksum
    echo "$version: the damage is found before $(sort -u "$DIR/actions" | paste -sd, -) only"
  done
  mv "$DIR/whole" "$contents"
  exec 9>"$DIR/status"
  criu_restore restore "$DIR/images" --action-script "$DIR/action" || fail "criu restore ended with status $?"
  PIDS+=("$PID")
  has_acted post-restore || fail "post-restore did not run"
  ends_with restore succeeded
  exec 9>&-
  goes_on "$STEP_BEFORE" "after the restore"
  all_memory_is_right "after the restore"
  ends_well "after the restore"
}

# The status of CRIU is not 0, and the process continues: no images are left that look valid.
scenario_post_dump_fails() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  make_action_script post-dump
  ! criu_dump dump "$DIR/images" --action-script "$DIR/action" || fail "the dump succeeded"
  has_acted post-dump || fail "post-dump did not run"
  ! compgen -G "$DIR/images/amdgpu-*.img" >/dev/null || fail "GPU images are left"
  survives "after a script that fails at post-dump"
  ends_well "after a script that fails at post-dump"
}

# begin_restore WHAT OPTIONS...: sets CRIU_PID
begin_restore() {
  echo 1000 >/proc/sys/kernel/ns_last_pid
  run_criu restore -D "$DIR/images" -W "$DIR" -o "criu-$1.log" -v4 --shell-job "${@:2}" </dev/null &
  CRIU_PID=$!
}
vram_fell_below() { [ "$(vram_used)" -lt "$1" ]; }

# CRIU waits for the tree, and a program of the tree ends. It had 96 MiB.
scenario_attached() {
  local used
  need_gpus 1
  need_plugin
  start_tree "gpu_chain --vram 96" "gpu_chain"
  for_each first_steps "$BEFORE_DUMP"
  dump_and_kill_tree dump "$DIR/images"
  begin_restore restore
  wait_until 60 log_of restore 'Restore finished successfully' || fail "the restore does not end"
  PIDS+=("$ROOT" "${TREE[@]}")
  for_each member_goes_on "attached"
  used=$(vram_used)
  kill -KILL "${TREE[0]}"
  wait_until 15 vram_fell_below $((used - (90 << 20))) ||
    fail "$(mebibytes "$(vram_used)") MiB of VRAM in use, before the end of the process $(mebibytes "$used")"
  alive "$CRIU_PID" || fail "criu has not waited for the tree"
  echo "VRAM in use: $(mebibytes "$used") MiB, then $(mebibytes "$(vram_used)") MiB"
  PID=${TREE[1]} LOG=${TREE_LOGS[1]}
  ends_well "attached"
  wait_until 20 gone "$CRIU_PID" || fail "criu does not end with the tree"
}

helper() { pgrep -x amdgpu-criu; }
fills_now() { grep -q 'event fill' "$DIR/criu-$1.log" 2>/dev/null; }

# cancel_restore WHAT REASON: what fills memory has stopped, like a read from a disk that hangs
cancel_restore() {
  local what=$1 stopped
  AMDGPU_CRIU_TEST_FAIL=fill:1:sleep begin_restore "$what" -d
  wait_until 60 fills_now "$what" || fail "$what: nothing is filled"
  stopped=$(helper)
  [[ $CRIU != *4.1.1* ]] || stopped=$PID
  kill -STOP $stopped || fail "$what: nobody fills"
  [[ $what != *TERM ]] || pkill -TERM -f "criu-$what.log"
  ! wait $CRIU_PID || fail "$what: the restore succeeded"
  grep -q "the restore has failed: .*$2" "$DIR/criu-$what.log" || fail "$what: no reason in the log"
  nothing_is_left "$what"
  echo "$what: $(grep -o 'the restore has failed: .*' "$DIR/criu-$what.log")"
}

scenario_restore_bounded() {
  local VRAM_FREE limit=$((2 * PATIENCE))
  need_gpus 1
  need_plugin
  mount_debugfs
  VRAM_FREE=$(vram_used)
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  TREE=("$PID") TREE_LOGS=("$LOG")
  dump_and_kill dump "$DIR/images"
  cancel_restore TERM SIGTERM
  # In that time, a busy machine begins to fill.
  AMDGPU_CRIU_TIMEOUT=$limit cancel_restore timeout "longer than the $limit s of amdgpu.timeout"
  # Here the task fills its own memory.
  CRIU=/opt/criu-4.1.1/criu
  AMDGPU_CRIU_TIMEOUT=$limit cancel_restore 4.1.1-timeout "longer than the $limit s of amdgpu.timeout"
  CRIU=criu
  restore_and_check restore "$DIR/images"
  ends_well "after restores that were cancelled"
}

# request DIRECTORY LOG TYPE PID [leave-running]: to $DIR/service
request() {
  python3 - "$DIR/service" "$@" <<'END'
import os, socket, sys
address, directory, log, kind, pid = sys.argv[1:6]
def number(field, value):
    data = bytes([field << 3])
    while value > 0x7f:
        data += bytes([value & 0x7f | 0x80])
        value >>= 7
    return data + bytes([value])
def text(field, value):
    return bytes([field << 3 | 2]) + number(0, len(value))[1:] + value
# criu_opts: images_dir_fd, pid, leave_running, shell_job, log_level, log_file
options = number(1, os.open(directory, os.O_RDONLY))
if kind == "dump":
    options += number(2, int(pid)) + number(3, len(sys.argv) > 6)
options += number(7, 1) + number(9, 4) + text(10, log.encode())
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect(address)
server.send(number(1, {"dump": 1, "restore": 2}[kind]) + text(2, options))
answer = server.recv(4096)
sys.exit(number(2, 1) not in answer[2:4])
END
}

listens() { [ -S "$DIR/service" ]; }

# One server, several requests. CRIU sets its options again for each of them, so -L of the server has no
# effect.
scenario_service() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps "$BEFORE_DUMP"
  mkdir "$DIR/images-1" "$DIR/images"
  ln -s images-1/criu.log "$DIR/criu-first.log"
  ln -s images/criu.log "$DIR/criu-second.log"
  ln -s images/criu-restore.log "$DIR/criu-restore.log"
  CRIU_LIBS_DIR=$PLUGIN_DIR "$CRIU" service --address "$DIR/service" -W "$DIR" -o criu-service.log -v4 &
  PIDS+=("$!")
  wait_until 20 listens || fail "criu service does not listen"
  request "$DIR/images-1" criu.log dump "$PID" leave-running || fail "the first dump failed"
  survives "after the first request"
  request "$DIR/images" criu.log dump "$PID" || fail "the second dump failed"
  wait_gone "$PID" 20 || fail "the dumped process is still there"
  STEP_BEFORE=$(last_step)
  echo 1000 >/proc/sys/kernel/ns_last_pid
  request "$DIR/images" criu-restore.log restore 0 || fail "the restore failed"
  grep -q '(amdgpu): filled ' "$DIR/images/criu-restore.log" || fail "no contents were restored"
  goes_on "$STEP_BEFORE" "after the restore"
  all_memory_is_right "after the restore"
  ends_well "after the restore"
}
