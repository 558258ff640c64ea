# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The command amdgpu-criu and the programs of `make bench`, on a GPU.

TOOL=$PAYLOAD/bin/amdgpu-criu

# json FILE EXPRESSION: checks a Python expression about the object `it`
json() {
  python3 -c "import json, sys; it = json.load(open('$1')); sys.exit(not ($2))" ||
    fail "${1##*/}: not true: $2: $(cat "$1")"
}

tool_check() { # tool_check NAME COMMAND...: status in STATUS, output in NAME.json
  local name=$1
  shift
  STATUS=0
  "$@" "$TOOL" check --libdir "$PLUGIN_DIR" --directory "$DIR" --json >"$DIR/$name.json" || STATUS=$?
}

BAD='[one for one in it["checks"] if one["status"] == "bad"]'

scenario_tool_check() {
  need_gpus 1
  need_plugin
  tool_check root
  [ $STATUS -eq 0 ] || fail "status $STATUS for root: $("$TOOL" check --libdir "$PLUGIN_DIR")"
  json "$DIR/root.json" "it['ok'] and not $BAD"
  json "$DIR/root.json" "sum('gfx target 90010' in one['found'] for one in it['checks']) == $(gpu_count)"
  "$TOOL" check --libdir "$PLUGIN_DIR"
  "$TOOL" stack-id --json >"$DIR/stack.json" || fail "stack-id: status $?"
  json "$DIR/stack.json" "0 < len(it['stack_id']) <= 64 and it['stack_id'].isascii()"
  "$TOOL" cdi --kind example.com/gpu >"$DIR/cdi.json" || fail "cdi: status $?"
  json "$DIR/cdi.json" "it['kind'] == 'example.com/gpu' and it['devices'][0]['name'] == '0'"
  json "$DIR/cdi.json" "len(it['devices'][-1]['containerEdits']['deviceNodes']) == $(gpu_count) + 1"
  tool_check nobody setpriv --reuid 65534 --regid 65534 --clear-groups
  [ $STATUS -eq 1 ] || fail "status $STATUS for a user without permission"
  json "$DIR/nobody.json" "{'GPU driver', 'permission'} <= {one['what'] for one in $BAD}"
  json "$DIR/nobody.json" "all(one['consequence'] or one['found'].startswith('not examined') for one in $BAD)"
  json "$DIR/nobody.json" "all(one['remedy'] for one in it['checks'] if one['status'] != 'ok')"
  echo "for nobody: $(grep -c '"bad"' "$DIR/nobody.json") bad, each with a remedy"
}

# makes_no_progress SECONDS: checks that the workload does no step during that time
makes_no_progress() {
  local step
  sleep 0.5 # for lines that it was about to print
  step=$(last_step)
  sleep "$1"
  [ "$(last_step)" -eq "$step" ] || fail "the frozen workload went from step $step to $(last_step)"
}

# read_holder: sets HOLDER to the pid of the background process of `freeze`
read_holder() {
  HOLDER=$(sed -n 's/.*; process \([0-9]*\) holds it.*/\1/p' "$DIR/freeze")
  alive "$HOLDER" || fail "no process holds it: $(<"$DIR/freeze")"
}

# refuses_dump WHAT: a process that is held
refuses_dump() {
  ! criu_dump "$1" "$DIR/images" || fail "a $1 process was dumped"
  grep 'Error.*(amdgpu).*another checkpoint of this process is in progress' "$DIR/criu-$1.log" ||
    fail "a $1 process: refused for another reason: $(grep Error "$DIR/criu-$1.log" | tail -n 3)"
}

# A dry run, and the GPU work of PID paused and resumed in every way.
dry_run_and_freeze() {
  "$TOOL" check --pid "$PID" --json >"$DIR/pid.json" || fail "check --pid: status $?: $(cat "$DIR/pid.json")"
  json "$DIR/pid.json" "it['ok'] and it['processes'][0]['pid'] == $PID and it['processes'][0]['queues'] > 0"
  json "$DIR/pid.json" "it['contents_bytes'] > 1 << 20"
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  makes_no_progress 1
  refuses "is frozen or suspended already" freeze
  refuses_dump frozen
  makes_no_progress 1
  "$TOOL" thaw --pid "$PID" || fail "thaw: status $?"
  survives "after the thaw"
  refuses "is neither frozen nor suspended" thaw
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  read_holder
  kill -KILL "$HOLDER"
  survives "after the end of the holder"
}

# mount_stalled: a file system in user space that never answers, at $DIR/stalled
mount_stalled() {
  modprobe fuse
  mkdir "$DIR/stalled"
  python3 - "$DIR/stalled" <<'END' &
import ctypes, os, signal, sys
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
if ctypes.CDLL(None, use_errno=True).mount(b"stalled", sys.argv[1].encode(), b"fuse", 6, options.encode()):
    raise OSError(ctypes.get_errno(), "mount")
signal.pause()
END
  STALLED=$!
  CLEANERS+=(unmount_stalled)
  wait_until 20 has_mounted_stalled || fail "no file system in user space"
}
has_mounted_stalled() { [[ $(</proc/mounts) == *" $DIR/stalled fuse "* ]]; }
unmount_stalled() { # the end of its process ends all requests
  kill -KILL "$STALLED"
  wait "$STALLED"
  umount -l "$DIR/stalled"
}

# Nobody answers when attributes of what the process has open are requested.
scenario_tool_stalled() {
  need_gpus 1
  mount_stalled
  printf '#!/usr/bin/python3\nimport os\nos.set_inheritable(os.open("%s", os.O_PATH), True)\nos.execv("%s", ["%s"])\n' \
    "$DIR/stalled" "$PAYLOAD/bin/gpu_chain" gpu_chain >"$DIR/program"
  chmod +x "$DIR/program"
  start "$DIR/program"
  readlink "/proc/$PID/fd/"* | grep -qx "$DIR/stalled" || fail "the process has nothing open there"
  timeout -s KILL $((30 * PATIENCE)) "$TOOL" check --pid "$PID" || fail "check: status $?"
  timeout -s KILL $((30 * PATIENCE)) "$TOOL" freeze --pid "$PID" || fail "freeze: status $?"
  "$TOOL" thaw --pid "$PID" || fail "thaw: status $?"
  ends_well "after check and freeze"
  freeze_with_stalled_dev
}

# Nor when /dev/kfd is looked up in a process that has closed it.
freeze_with_stalled_dev() {
  local status
  unshare --mount python3 - "$DIR/stalled" <<'END' &
import ctypes, os, signal, sys
os.close(os.open("/dev/kfd", os.O_RDWR))
if ctypes.CDLL(None, use_errno=True).mount(sys.argv[1].encode(), b"/dev", None, 4096, None):
    raise OSError(ctypes.get_errno(), "mount")
signal.pause()
END
  PID=$!
  PIDS+=("$PID")
  wait_until 20 has_stalled_dev || fail "/dev is not replaced"
  timeout -s KILL $((30 * PATIENCE)) "$TOOL" freeze --pid "$PID" >"$DIR/freeze" 2>&1
  status=$?
  [ $status -eq 1 ] || fail "freeze of a process without state: status $status"
  grep "process $PID uses no AMD GPU" "$DIR/freeze" || fail "freeze of a process without state: $(<"$DIR/freeze")"
}
has_stalled_dev() { grep -q ' /dev fuse ' "/proc/$PID/mounts"; }

kill_frozen() {
  "$TOOL" freeze --pid "$PID" >"$DIR/freeze" || fail "freeze: status $?"
  read_holder
  kill -KILL "$PID"
  wait_gone "$PID" 20 || fail "a frozen process that was killed does not end"
  wait_gone "$HOLDER" 20 || fail "the holder outlives what it has frozen"
}

scenario_tool_images() {
  need_gpus 1
  need_plugin
  start gpu_chain
  first_steps 20
  dry_run_and_freeze
  criu_dump dump "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  json "$DIR/amdgpu-stats-dump.json" \
    "it['version'] == 1 and it['processes'] == 1 and it['paused_us'] > 0"
  json "$DIR/amdgpu-stats-dump.json" \
    "it['bytes'] == it['stored_bytes'] + it['zero_bytes'] and it['stored_bytes'] > 1 << 20"
  kill_frozen
  "$TOOL" show --json --blob "$DIR/images" >"$DIR/show.json" || fail "show: status $?"
  json "$DIR/show.json" "{'process', 'queue', 'bo'} <= {one['name'] for one in it['processes'][0]['records']}"
  json "$DIR/show.json" "{'file', 'end'} <= {one['name'] for one in it['render_files'][0]['records']}"
  json "$DIR/show.json" "it['processes'][0]['pid'] == $PID and it['processes'][0]['comm'] == 'gpu_chain'"
  "$TOOL" verify "$DIR/images" || fail "verify: status $?"
  "$TOOL" requirements --json "$DIR/images" >"$DIR/requirements.json" || fail "requirements: status $?"
  json "$DIR/requirements.json" "it['kernel_interface'] == 'amdgpu-criu' and it['kernel_records']"
  json "$DIR/requirements.json" "sum(gpu['contents_bytes'] for gpu in it['gpus']) > 1 << 20"
  json "$DIR/requirements.json" "len(it['files']) == $(find "$DIR/images" -name 'amdgpu-*.img' | wc -l)"
  local file size
  file=$(find "$DIR/images" -name 'amdgpu-contents-*.img' -size +1M | head -n 1)
  size=$(stat -c %s "$file")
  flip_byte "$file" $((size / 2))
  "$TOOL" verify --json "$DIR/images" >"$DIR/verify.json" && fail "verify finds nothing wrong"
  json "$DIR/verify.json" "not it['ok'] and 'pid $PID' in it['findings'][0]['problem']"
  echo "$(grep -m1 '"problem"' "$DIR/verify.json")"
}

bench_has_a_directory() { compgen -G "$DIR/amdgpu-criu-bench-*" >/dev/null; }

scenario_tool_bench() {
  local status interrupted
  need_gpus 1
  "$TOOL" bench --json --size 8 --rounds 2 --gpu 0 --directory "$DIR" >"$DIR/bench.json" ||
    fail "bench: status $?"
  json "$DIR/bench.json" "len(it['gpus']) == 1 and it['gpus'][0]['dump']['median'] > 0"
  json "$DIR/bench.json" "it['gpus'][0]['restore_to_limit']['most'] > 0"
  "$TOOL" bench --size 1 --rounds 1 --gpu 99 --directory "$DIR" 2>"$DIR/bench.log" && fail "bench finds GPU 99"
  grep 'there is no GPU 99' "$DIR/bench.log" || fail "bench does not name GPU 99: $(<"$DIR/bench.log")"
  ! bench_has_a_directory || fail "bench leaves files behind"
  "$TOOL" bench --size 8 --rounds 1000 --gpu 0 --directory "$DIR" >/dev/null 2>&1 &
  interrupted=$!
  PIDS+=("$interrupted")
  wait_until 60 bench_has_a_directory || fail "bench makes no directory"
  kill -TERM "$interrupted"
  wait "$interrupted"
  status=$?
  [ $status -eq 143 ] || fail "bench ended with status $status after SIGTERM"
  ! bench_has_a_directory || fail "bench that was interrupted leaves files behind"
  SCRATCH=$DIR "$PAYLOAD/bench/measure" --smoke --rounds 1 --divisor 1024 >"$DIR/samples" ||
    fail "measure: status $?: $(tail -n 3 "$DIR/samples")"
  # Status 3: one round decides nothing; 4: goals are missed, as they are with sizes this small.
  python3 -B "$PAYLOAD/bench/report.py" "$DIR/samples" "$DIR/tables"
  status=$?
  [ $status -eq 3 ] || [ $status -eq 4 ] || fail "report: status $status"
  json "$DIR/tables/table.json" "it['complete'] and not it['failures'] and len(it['shapes']) == 2"
  json "$DIR/tables/table.json" "it['shapes'][1]['series']['dump / limit']['n'] == 1"
}
