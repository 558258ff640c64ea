# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Debian's llama.cpp and whisper.cpp with models that ../llm/random_*.py have written, in the guest
# images that scripts/rocm and scripts/vulkan make: by HIP, or by Debian's RADV.

WORDS=160        # of each text
WORD_SECONDS=400 # until the first one, and from each to a later one

# start_writer NAME PROGRAM ARGUMENT...: the program writes a text; sets PID, TEXT (its file) and LOG
start_writer() {
  TEXT=$DIR/$1.txt LOG=$DIR/$1.log
  : >"$TEXT" # words are counted at once
  shift
  first_pid_of_scenario
  HIP_VISIBLE_DEVICES=0 GGML_VK_VISIBLE_DEVICES=0 VK_LOADER_DRIVERS_SELECT='radeon_icd*' \
    setsid "$@" </dev/null >"$TEXT" 2>"$LOG" &
  PID=$!
  PIDS+=("$PID")
  disown "$PID"
}

# start_llama NAME OPTION...: what the most probable words are
start_llama() {
  local model=$PAYLOAD/rocm/model.gguf
  [ -s "$model" ] || model=$PAYLOAD/vulkan/model.gguf
  [ -s "$model" ] || fail "there is no model in $PAYLOAD"
  start_writer "$1" llama-completion -m "$model" --prompt gpu --predict $WORDS --temp 0 --threads 2 \
    --ctx-size 512 --no-conversation --no-warmup "${@:2}"
}

# start_whisper NAME OPTION...: what is said in a sound, of which each 30 s are 28 words
start_whisper() {
  start_writer "$1" whisper-cli --model "$PAYLOAD/rocm/whisper.bin" --file "$PAYLOAD/rocm/whisper.wav" \
    --threads 2 --audio-ctx 256 --best-of 1 --beam-size 1 --max-context 0 --no-fallback --no-timestamps "${@:2}"
}

words() { wc -w <"$TEXT"; }
has_words() { [ "$(words)" -ge "$1" ] || gone "$PID"; }

first_words() { # first_words COUNT: is alive and has written that many
  wait_until $WORD_SECONDS has_words "$1" || fail "no $1 words after $WORD_SECONDS s"
  alive "$PID" || fail "the program is gone after $(words) words"
}

# whole_text WHAT: waits for the complete text
whole_text() {
  local before=-1
  until gone "$PID"; do
    [ "$(words)" -gt $before ] || fail "$1: stuck after $(words) words"
    before=$(words)
    wait_gone "$PID" $WORD_SECONDS
  done
  grep -q 'total time' "$LOG" || fail "$1: the program has failed after $(words) words"
  [ "$(words)" -gt "$WORDS" ] || fail "$1: only $(words) words"
}

same_text() { # same_text WHAT FILE
  cmp -s "$TEXT" "$2" || fail "$1: another text, from $(cmp "$TEXT" "$2" 2>&1)"
}

# dump_text WHAT IMAGES: in the middle of the text; prints the waves in flight, if there are any
dump_text() {
  local waves
  criu_dump "$1" "$2" || fail "$1: criu dump ended with status $?"
  gone "$PID" || fail "$1: the dumped process is still there"
  waves=$("$PAYLOAD/bin/saved_waves" "$2" 2>&1) || fail "saved waves of $2: $waves"
  echo "$1 $DUMP_SECONDS s, images $(image_mebibytes "$2") MiB, after $(words) words"
  [ "$waves" = "waves 0" ] || echo "$waves"
}

restore_text() { # restore_text WHAT IMAGES: it writes more words
  local before
  before=$(words)
  criu_restore "$1" "$2" || fail "$1: criu restore ended with status $?"
  PIDS+=("$PID")
  first_words $((before + 10))
  echo "$1 $RESTORE_SECONDS s, words $before -> $(words)"
}

BACKEND_OPS=/usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops
OPS_SECONDS=3000

# The operations of ggml on the GPU, compared with the CPU's by llama.cpp's own program.
operations_pass() { # operations_pass BACKEND LIST
  need_gpus 1
  HIP_VISIBLE_DEVICES=0 GGML_VK_VISIBLE_DEVICES=0 VK_LOADER_DRIVERS_SELECT='radeon_icd*' \
    "$PAYLOAD/llm/backend_ops.py" "$BACKEND_OPS" "$1" "$PAYLOAD/llm/$2" $((OPS_SECONDS * PATIENCE)) ||
    fail "an operation does not pass"
}

scenario_backend_ops() { operations_pass ROCm0 backend_ops.known; }
scenario_vulkan_ops() { operations_pass Vulkan0 vulkan_ops.known; }

# text_continues START OPTIONS-OF-GPU OPTIONS-OF-CPU: a text is interrupted twice and continues on the same
# GPU, then on the other one. It must equal the text that the GPU writes undisturbed, and that of the CPU.
text_continues() {
  local start=$1 on_gpu on_cpu
  read -ra on_gpu <<<"$2"
  read -ra on_cpu <<<"$3"
  need_gpus 2
  need_plugin
  "$start" undisturbed "${on_gpu[@]}"
  whole_text undisturbed
  cp "$TEXT" "$DIR/expected"
  "$start" cpu "${on_cpu[@]}"
  whole_text "of the CPU"
  same_text "of the CPU" "$DIR/expected"
  "$start" interrupted "${on_gpu[@]}"
  first_words 20
  USAGE=$(gpu_usage)
  echo "the driver counts $USAGE"
  dump_text dump "$DIR/images"
  restore_text restore "$DIR/images"
  dump_text again "$DIR/images2"
  swap_gpus
  restore_text elsewhere "$DIR/images2"
  whole_text "after the restores"
  same_text "after the restores" "$DIR/expected"
  fold -s -w 90 "$TEXT"
}

scenario_llm() { text_continues start_llama "--gpu-layers 99" "--device none"; }
scenario_whisper() { text_continues start_whisper "" --no-gpu; }
