# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The command amdgpu-criu snapshot.

SERVER_STEPS=10 # that a server does until it is ready

# A client in a network of its own, and the machine's address in it.
CLIENT_NETWORK=client
MACHINE_ADDRESS=10.214.0.1

make_client_network() {
  CLEANERS+=(remove_client_network)
  ip netns add $CLIENT_NETWORK || fail "cannot make a network namespace"
  ip -batch - <<-LINES || fail "cannot make a network for the client"
	link add to-client type veth peer name eth0 netns $CLIENT_NETWORK
	address add $MACHINE_ADDRESS/30 dev to-client
	link set to-client up
	LINES
  ip -n $CLIENT_NETWORK address add 10.214.0.2/30 dev eth0
  ip -n $CLIENT_NETWORK link set eth0 up
}
remove_client_network() { ip netns delete $CLIENT_NETWORK; }
in_client_network() { ip netns exec $CLIENT_NETWORK "$@"; }

# snapshot COMMAND OPTIONS...: standard output is DIR/COMMAND.out, standard error DIR/COMMAND.log
snapshot() {
  local command=$1
  shift
  "$TOOL" snapshot "$command" "$@" >"$DIR/$command.out" 2>"$DIR/$command.log" </dev/null
}

# create_snapshot NAME OPTIONS... -- COMMAND...
create_snapshot() {
  snapshot create "$DIR/$1" --libdir "$PLUGIN_DIR" --criu "$CRIU" --ready-line "step $SERVER_STEPS " \
    --ready-timeout $((120 * PATIENCE)) "${@:2}"
}

# restore_snapshot NAME OPTIONS...: adds the replicas to the processes that end with the scenario
restore_snapshot() {
  snapshot restore "$DIR/$1" --libdir "$PLUGIN_DIR" --criu "$CRIU" --state-dir "$DIR/replicas" --json \
    "${@:2}" || return
  mapfile -t REPLICAS < <(values_of '[one["pid"] for one in it["replicas"]]')
  PIDS+=("${REPLICAS[@]}")
}

# values_of EXPRESSION: of the list that a Python expression makes of the last restore, one in a line
values_of() {
  python3 -c "import json; it = json.load(open('$DIR/restore.out')); print(*($1), sep='\n')"
}

# The server that a failed create leaves running: PID and LOG.
take_server() {
  PID=$(sed -n 's/.* process \([0-9]*\), 1 in its pid namespace.*/\1/p' "$DIR/create.log")
  LOG=$DIR/$1/server.log
  PIDS+=("$PID")
}

no_gpu_holders() { [ -z "$(gpu_holders)" ]; }

failed_create_leaves_the_server() {
  ! AMDGPU_CRIU_TEST_FAIL=CHECKPOINT:1:EIO create_snapshot failed --after "echo \$SNAPSHOT_RESULT >$DIR/after" \
    --before true -- "$PAYLOAD/bin/gpu_chain" || fail "a create without a checkpoint succeeds"
  take_server failed
  grep -q 'TEST SWITCH: fault at CHECKPOINT' "$DIR/failed/dump.log" || fail "nothing was made to fail"
  grep -q "process $PID runs on" "$DIR/create.log" || fail "no word of the server: $(<"$DIR/create.log")"
  [ "$(<"$DIR/after")" = failed ] || fail "the hook after a failed dump got $(<"$DIR/after")"
  [ ! -e "$DIR/failed/images" ] || fail "images of a failed create stay"
  survives "after a failed create"
}

# The server PID is tried, and saved, while it runs.
running_server_is_saved() {
  local options=(--pid "$PID" --libdir "$PLUGIN_DIR" --criu "$CRIU")
  snapshot create "$DIR/tried" "${options[@]}" --dry-run || fail "a dry run: $(<"$DIR/create.log")"
  grep -q ' criu dump -t ' "$DIR/create.log" || fail "a dry run prints no command"
  grep -q 'would carry its GPU state' "$DIR/create.out" || fail "a dry run: $(<"$DIR/create.out")"
  [ ! -e "$DIR/tried" ] || fail "a dry run creates a directory"
  snapshot create "$DIR/running" "${options[@]}" --leave-running --without=--skip-in-flight \
    --criu-option=--ghost-limit=2000000 || fail "create of a running server: $(<"$DIR/create.log")"
  grep -q -e '--tcp-close --ghost-limit=2000000$' "$DIR/create.log" || fail "options: $(<"$DIR/create.log")"
  survives "after a snapshot that leaves it running"
  kill -KILL "$PID"
  wait_gone "$PID" 20 || fail "the server does not end"
  rm -r "$DIR/running"
}

# refused PATTERN OPTIONS...: a restore that fails, and leaves nothing
refused() {
  local pattern=$1
  shift
  ! restore_snapshot server "$@" || fail "restored: $pattern"
  grep -q "$pattern" "$DIR/restore.log" || fail "another reason than $pattern: $(<"$DIR/restore.log")"
  wait_until 15 no_gpu_holders || fail "$pattern: GPU files are open in $(gpu_holders)"
}

damage_is_found() {
  local file
  file=$(find "$DIR/server/images" -name 'amdgpu-contents-*.img' -size +1M | head -n 1)
  flip_byte "$file" $(($(stat -c %s "$file") / 2))
  snapshot verify "$DIR/server"
  [ $? -eq 1 ] || fail "verify: another status"
  grep -q "${file##*/} has another BLAKE3 digest" "$DIR/verify.out" || fail "verify: $(<"$DIR/verify.out")"
  refused "snapshot is damaged: .*${file##*/}" --verify
  refused "criu restore ended with status .*${file##*/}"
}

# A shell command, for a replica with the number 1: its network has a loopback device, which is up.
NOTHING_BUT_LOOPBACK='[ "$SNAPSHOT_REPLICA $(ip -o link show | cut -d " " -f 2)" = "1 lo:" ] &&
  ip -o link show up | grep -q LOOPBACK'

# A server is started, saved, restored and goes on; failures leave what they must.
scenario_snapshot() {
  need_gpus 1
  need_plugin
  failed_create_leaves_the_server
  running_server_is_saved
  create_snapshot server -- "$PAYLOAD/bin/gpu_chain" || fail "create: $(<"$DIR/create.log")"
  cat "$DIR/create.log" "$DIR/create.out"
  LOG=$DIR/server/server.log
  STEP_BEFORE=$(last_step)
  [ -z "$(gpu_holders)" ] || fail "the server runs after create"
  ! create_snapshot server -- true || fail "a snapshot was overwritten"
  grep -q 'there is a snapshot in .* already' "$DIR/create.log" || fail "create again: $(<"$DIR/create.log")"
  snapshot inspect "$DIR/server" --json || fail "inspect: $(<"$DIR/inspect.log")"
  json "$DIR/inspect.out" "it['server']['own_pid_namespace'] and it['gpus'][0]['memory'] > 1 << 20"
  json "$DIR/inspect.out" "it['ready_seconds'] > 0 and it['stack_id'] and 0 < it['vram']"
  snapshot list "$DIR" --json || fail "list: $(<"$DIR/list.log")"
  json "$DIR/list.out" "[one['name'] for one in it['snapshots']] == ['server']"
  snapshot verify "$DIR/server" || fail "verify: $(<"$DIR/verify.out")"
  snapshot restore "$DIR/server" --libdir "$PLUGIN_DIR" --criu "$CRIU" --state-dir "$DIR/replicas" --dry-run ||
    fail "a dry run: $(<"$DIR/restore.log")"
  grep -q 'criu restore -d ' "$DIR/restore.log" || fail "a dry run prints no command"
  [ ! -e "$DIR/replicas" ] || fail "a dry run creates a directory"
  refused "ended with status 3" --restored 'exit 3'
  refused "replica 1: the server is not ready after 1 s" --ready-command false --ready-timeout 1
  restore_snapshot server --network none --ready-command "$NOTHING_BUT_LOOPBACK" ||
    fail "restore: $(<"$DIR/restore.log")"
  PID=${REPLICAS[0]} LOG=$(values_of '[one["directory"] for one in it["replicas"]]')/server.log
  goes_on "$STEP_BEFORE" "the replica"
  all_memory_is_right "the replica"
  ends_well "the replica"
  cat "$DIR/restore.log" "$DIR/restore.out"
  grep -q ' [1-9][0-9]* copied from pages of files and [1-9][0-9]* compared' "$DIR"/replicas/1/restore.log ||
    fail "the GPU has read nothing by itself: $(grep -h 'filled' "$DIR"/replicas/1/restore.log)"
  damage_is_found
}

# write_hook: the program DIR/ask succeeds if the server of the replica answers
write_hook() {
  cat >"$DIR/ask" <<'END'
#!/bin/bash
exec 3<>"/dev/tcp/$SNAPSHOT_ADDRESS/$SNAPSHOT_PORTS"
printf 'GET / HTTP/1.0\r\n\r\n' >&3
grep -q listing <&3
END
  chmod +x "$DIR/ask"
}

# Three at once on two GPUs, each with a network of its own, at which a hook asks it. One needs more memory than what
# makes the larger GPU the emptier one: the driver reserves as much on both.
scenario_snapshot_replicas() {
  local number
  need_gpus 2
  need_plugin
  write_hook
  export AMDGPU_CRIU_IGNORE=vram_size
  create_snapshot server --ready-port 8080 -- sh -c \
    "$PAYLOAD/bin/gpu_chain --vram 24 & exec python3 -m http.server 8080" || fail "create: $(<"$DIR/create.log")"
  LOG=$DIR/server/server.log
  STEP_BEFORE=$(last_step)
  ! restore_snapshot server --replicas 2 || fail "two replicas listen on one port"
  grep -q 'cannot all listen on port 8080' "$DIR/restore.log" || fail "$(<"$DIR/restore.log")"
  restore_snapshot server --replicas 3 --network veth --restored "$DIR/ask" ||
    fail "restore: $(<"$DIR/restore.log")"
  cat "$DIR/restore.out"
  [ "$(values_of '{one["gpus"] for one in it["replicas"]}' | wc -l)" -eq 2 ] || fail "not spread over two GPUs"
  [ "$(values_of '{one["address"] for one in it["replicas"]}' | wc -l)" -eq 3 ] || fail "addresses are shared"
  for number in 1 2 3; do
    PID=$(pgrep -P "${REPLICAS[number - 1]}") LOG=$DIR/replicas/$number/server.log
    PIDS+=("$PID")
    goes_on "$STEP_BEFORE" "replica $number"
    all_memory_is_right "replica $number"
  done
  kill -KILL "${REPLICAS[@]}"
  wait_until 20 no_gpu_holders || fail "replicas do not end"
  wait_until 20 no_veth || fail "their networks stay: $(ip -o link)"
}

no_veth() { ! ip -o link | grep -q ' criu[0-9]*@'; }

# write_counter: the program DIR/counter counts for everybody who connects, a line for each number
write_counter() {
  cat >"$DIR/counter" <<'END'
#!/usr/bin/python3
import socket, threading, time

def count(connection):
    number = 0
    while True:
        connection.sendall(b"%d\n" % number)
        number += 1
        time.sleep(0.02)

with socket.create_server(("", 8080)) as server:
    while True:
        threading.Thread(target=count, args=server.accept()[:1], daemon=True).start()
END
  chmod +x "$DIR/counter"
}

is_listening() { grep -q ':1F90 00000000:0000 0A' /proc/net/tcp; } # on port 8080

counted() { wc -l <"$DIR/counted"; }
has_counted() { [ "$(counted)" -ge "$1" ]; }

# connect_client: the client of the counter, in a network of its own, writes what it gets to DIR/counted
connect_client() {
  : >"$DIR/counted"
  in_client_network bash -c "exec 3<>/dev/tcp/$MACHINE_ADDRESS/8080; exec cat <&3" >"$DIR/counted" &
  CLIENT=$!
  PIDS+=("$CLIENT")
  disown "$CLIENT"
}

# counting_goes_on WHAT: on the same connection, without a gap
counting_goes_on() {
  local before
  before=$(counted)
  wait_until 20 has_counted $((before + 20)) || fail "$1: the client gets nothing after $before"
  alive "$CLIENT" || fail "$1: the client has lost its connection"
  awk '$1 != NR - 1 { exit 1 }' "$DIR/counted" || fail "$1: numbers are missing"
}

# save_counting NAME OPTIONS...: while it counts
save_counting() {
  snapshot create "$DIR/$1" --pid "$PID" --tcp established --libdir "$PLUGIN_DIR" --criu "$CRIU" "${@:2}"
}

# A client gets a stream while the server is saved, ends and is restored: its connection continues.
scenario_snapshot_stream() {
  need_gpus 1
  need_plugin
  write_counter
  make_client_network
  first_pid_of_scenario
  setsid sh -c "$PAYLOAD/bin/gpu_chain & exec $DIR/counter" </dev/null >"$DIR/workload.log" 2>&1 &
  PID=$! LOG=$DIR/workload.log
  PIDS+=("$PID")
  disown "$PID"
  first_steps $SERVER_STEPS
  PIDS+=("$(pgrep -P "$PID")")
  wait_until 60 is_listening || fail "the server does not listen"
  connect_client
  wait_until 20 has_counted 20 || fail "the server does not count"
  ! save_counting failed --after false || fail "create succeeds although a hook fails"
  grep -q 'criu dump took' "$DIR/create.log" || fail "create fails before its hook: $(<"$DIR/create.log")"
  counting_goes_on "after a failed create"
  # shellcheck disable=SC2016
  ! save_counting interrupted --after 'kill -TERM $PPID' || fail "create succeeds although it is interrupted"
  grep -q 'criu dump took' "$DIR/create.log" || fail "create ends before CRIU has: $(<"$DIR/create.log")"
  counting_goes_on "after an interrupted create"
  save_counting running --leave-running || fail "create --leave-running: $(<"$DIR/create.log")"
  counting_goes_on "after a snapshot that leaves it running"
  save_counting server || fail "create: $(<"$DIR/create.log"); $(grep Error "$DIR/server/dump.log")"
  STEP_BEFORE=$(last_step)
  refused "1 TCP connections can continue in one replica only" --network none
  restore_snapshot server || fail "restore: $(<"$DIR/restore.log")"
  counting_goes_on "after the restore"
  PID=$(pgrep -P "${REPLICAS[0]}") LOG=$DIR/replicas/1/server.log
  goes_on "$STEP_BEFORE" "the restored server"
  grep -h 'criu dump\|criu restore\|--tcp' "$DIR/create.log" "$DIR/restore.log"
  echo "CRIU $("$CRIU" --version | sed -n 's/^Version: //p'): $(counted) numbers without a gap"
}
