# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Debian's llama-server by HIP, with a model that ../llm/random_model.py has written: snapshots of it, and
# replicas. Each answer must be, token by token, that of a server which nothing has disturbed. Needs the
# image that scripts/rocm makes.

SLOTS=8          # requests that a server answers at the same time
TOKENS=12        # of each answer
STREAM=$SLOTS    # the number of the request whose answer is interrupted,
STREAM_TOKENS=60 # its tokens,
STREAM_BEFORE=5  # and how many of them come before
LLAMA_PORT=8080
LLAMA_SECONDS=600 # until the server is ready, and for each token
HEALTHY="busybox wget -q -O /dev/null http://127.0.0.1:$LLAMA_PORT/health"
LLAMA_SERVER=(llama-server -m "$PAYLOAD/rocm/model.gguf" --gpu-layers 99 --host 0.0.0.0
  --port "$LLAMA_PORT" --parallel "$SLOTS" --ctx-size "$((SLOTS * 128))" --threads 2 --offline)

# The time line, for a picture: DIR/timeline has lines "LANE WHAT BEGIN SECONDS".
seconds_now() { echo "${EPOCHREALTIME%???}"; }
event() { echo "$*" >>"$DIR/timeline"; }
calculate() { awk "BEGIN { printf \"%.2f\", $1 }"; }

# Programs and images come from the disk again.
forget_files() {
  sync
  echo 3 >/proc/sys/vm/drop_caches
}

prepare_llama() {
  need_gpus 2
  need_plugin
  [ -s "$PAYLOAD/rocm/model.gguf" ] || fail "there is no model in $PAYLOAD"
  export HIP_VISIBLE_DEVICES=0
}

# ask NAME OPTIONS...: the log of the tokens is DIR/NAME.tokens
ask() {
  local name=$1
  shift
  "$PAYLOAD/llm/ask.py" --limit $((LLAMA_SECONDS * PATIENCE)) --log "$DIR/$name.tokens" "$@" \
    2>"$DIR/$name.log"
}
ask_all() { ask "$1" --requests $SLOTS --tokens $TOKENS "${@:2}" "$ADDRESS:$LLAMA_PORT"; }
ask_stream() { ask "$1" --first "$STREAM" --tokens $STREAM_TOKENS "${@:2}" "$ADDRESS:$LLAMA_PORT"; }

is_healthy_or_gone() { $HEALTHY 2>/dev/null || gone "$PID"; }

# A server that nothing disturbs gives the answers that are expected of all others, and the time of a
# cold start.
undisturbed_answers() {
  local begin ADDRESS=127.0.0.1
  forget_files
  begin=$(seconds_now)
  setsid "${LLAMA_SERVER[@]}" </dev/null >"$DIR/undisturbed.log" 2>&1 &
  PID=$!
  PIDS+=("$PID")
  disown "$PID"
  wait_until $LLAMA_SECONDS is_healthy_or_gone || fail "the server is not ready"
  alive "$PID" || fail "the server has ended"
  COLD_SECONDS=$(seconds_since "${begin/./}000")
  event undisturbed start "$begin" "$COLD_SECONDS"
  ask_all expected --save "$DIR/expected" || fail "no answers: $(<"$DIR/expected.log")"
  ask_stream expected-stream --save "$DIR/expected-stream" ||
    fail "no answers: $(<"$DIR/expected-stream.log")"
  kill -TERM "$PID"
  wait_gone "$PID" 60 || fail "the server does not end"
}

# save_llama NAME OPTIONS...: sets DUMP_SECONDS and READY_SECONDS
save_llama() {
  local begin saved name=$1
  shift
  forget_files
  begin=$(seconds_now)
  snapshot create "$DIR/$name" --libdir "$PLUGIN_DIR" --criu "$CRIU" --ready-command "$HEALTHY" \
    --ready-timeout $((LLAMA_SECONDS * PATIENCE)) "$@" || fail "create: $(<"$DIR/create.log")"
  DUMP_SECONDS=$(manifest "$name" dump_seconds) READY_SECONDS=$(manifest "$name" ready_seconds)
  [ "$READY_SECONDS" = 0.00 ] || event "$name" start "$begin" "$READY_SECONDS"
  saved=$(sed -n 's/^ *\([0-9.]*\) s  criu dump took.*/\1/p' "$DIR/create.log")
  event "$name" dump "$(calculate "$begin + $saved - $DUMP_SECONDS")" "$DUMP_SECONDS"
  event "$name" digests "$(calculate "$begin + $saved")" "$(calculate "$(seconds_now) - $begin - $saved")"
}

# manifest NAME MEMBER: times with two decimals
manifest() {
  python3 -c "import json; it = json.load(open('$DIR/$1/manifest.json'))['$2']
print(f'{it:.2f}' if isinstance(it, float) else it)"
}

# restore_llama NAME OPTIONS...: sets REPLICAS, SECONDS_EACH and ADDRESSES
restore_llama() {
  local begin number name=$1
  forget_files
  begin=$(seconds_now)
  restore_snapshot "$@" || fail "restore: $(<"$DIR/restore.log")"
  mapfile -t SECONDS_EACH < <(values_of '["%.2f" % one["seconds"] for one in it["replicas"]]')
  for number in "${!REPLICAS[@]}"; do
    event "replica$((number + 1))" restore "$begin" "${SECONDS_EACH[number]}"
  done
  mapfile -t ADDRESSES < <(values_of '[one["address"] for one in it["replicas"]]')
}

end_replicas() {
  kill -KILL "${REPLICAS[@]}"
  wait_until 20 no_gpu_holders || fail "replicas do not end"
}

# All replicas are asked at the same time.
replicas_answer() {
  local number ADDRESS asked=() failed=0
  for number in "${!REPLICAS[@]}"; do
    ADDRESS=${ADDRESSES[number]}
    ask_all "replica$((number + 1))" --expect "$DIR/expected" &
    asked+=($!)
  done
  for number in "${!asked[@]}"; do
    wait "${asked[number]}" || {
      echo "replica $((number + 1)): $(<"$DIR/replica$((number + 1)).log")"
      failed=1
    }
  done
  ((failed == 0)) || fail "an answer is not that of the undisturbed server"
}

streamed() { wc -l <"$DIR/stream.tokens"; }
has_streamed() { [ "$(streamed)" -ge "$1" ] || gone "$CLIENT"; }

# A client elsewhere in the network gets a text while the server is saved, ends, and is restored. It
# sees one connection, which rests. Sets BEFORE, the number of tokens that it had, and RESTED, in seconds.
stream_goes_on() {
  local ADDRESS=$MACHINE_ADDRESS
  PID=${REPLICAS[0]}
  : >"$DIR/stream.tokens"
  in_client_network "$PAYLOAD/llm/ask.py" --limit $((LLAMA_SECONDS * PATIENCE)) \
    --log "$DIR/stream.tokens" --first $STREAM --tokens $STREAM_TOKENS \
    --expect "$DIR/expected-stream" "$ADDRESS:$LLAMA_PORT" 2>"$DIR/stream.log" &
  CLIENT=$!
  PIDS+=("$CLIENT")
  wait_until $LLAMA_SECONDS has_streamed $STREAM_BEFORE || fail "no $STREAM_BEFORE tokens"
  alive "$CLIENT" || fail "the client has ended: $(<"$DIR/stream.log")"
  save_llama middle --pid "$PID" --tcp established
  gone "$PID" || fail "the server runs after create"
  BEFORE=$(streamed)
  [ "$BEFORE" -lt $STREAM_TOKENS ] || fail "the text was complete before the dump"
  restore_llama middle
  wait "$CLIENT" || fail "the stream does not go on after $BEFORE tokens: $(<"$DIR/stream.log")"
  RESTED=$(awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { printf "%.2f", most }' \
    "$DIR/stream.tokens")
}

scenario_llm_server() {
  prepare_llama
  undisturbed_answers
  echo "cold start $COLD_SECONDS s"
  save_llama llama -- "${LLAMA_SERVER[@]}"
  cat "$DIR/create.log" "$DIR/create.out"
  echo "cold start $READY_SECONDS s, dump $DUMP_SECONDS s"
  restore_llama llama --replicas 4 --network veth
  cat "$DIR/restore.out"
  [ "$(values_of '{one["gpus"] for one in it["replicas"]}' | wc -l)" -eq 2 ] || fail "not spread over two GPUs"
  replicas_answer
  echo "4 replicas, $SLOTS requests each at the same time: the answers are right"
  end_replicas
  make_client_network
  restore_llama llama
  echo "one replica ${SECONDS_EACH[0]} s"
  stream_goes_on
  cat "$DIR/create.log" "$DIR/restore.log"
  "$PAYLOAD/bin/saved_waves" "$DIR/middle/images" || fail "the images' waves cannot be read"
  echo "dump $DUMP_SECONDS s and restore ${SECONDS_EACH[0]} s after $BEFORE of $STREAM_TOKENS tokens," \
    "which rested for $RESTED s"
  replicas_answer
}
