# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Models that Debian's MIGraphX compiles and runs, in the guest image that `scripts/rocm migraphx` makes.

COMPILE_SECONDS=2400 # for the kernels of a model; those of resnet take more than 8 minutes of CPU time

# start_model NAME: sets PID and LOG. MIGraphX compiles the model first, which takes minutes; another run with the
# same /scratch finds it compiled.
start_model() {
  local model=$DIR/$1.onnx compiled
  "$PAYLOAD/models/random_onnx.py" "$1" "$model" || fail "the model $1 cannot be written"
  compiled=$KEPT/$1-$(sha256sum "$model" | cut -c1-16).mxr
  if [ ! -s "$compiled" ]; then
    LOG=$DIR/$1-compile.log
    "$PAYLOAD/models/infer.py" "$model" "$compiled" --compile >"$LOG" 2>&1 &
    PIDS+=($!)
    wait_gone $! $COMPILE_SECONDS || fail "$1 is not compiled after $COMPILE_SECONDS s"
    [ -s "$compiled" ] || fail "$1 is not compiled"
  fi
  LOG_NAME=$1 start "$PAYLOAD/models/infer.py" "$model" "$compiled"
}

# The outputs depend on one of four inputs alone: each line of the log that has another value fails it.
outputs_are_equal() {
  awk '/^step / { input = $2 % 4; if (!(input in known)) known[input] = $3; wrong += known[input] != $3; steps++ }
    END { exit !steps || wrong }' "$LOG" || fail "$1: outputs for the same input differ"
}

# infers NAME: in the middle of inferences, the model is dumped and restored on its GPU, and on the other one.
infers() {
  export HIP_VISIBLE_DEVICES=0
  STEPS_WANTED=6
  START_SECONDS=600
  need_gpus 2
  need_plugin
  start_model "$1"
  sed -n "s/^ready: /$1: /p" "$LOG"
  first_steps 6
  all_memory_is_right "before the dump"
  dump_and_kill "$1-dump" "$DIR/images"
  "$PAYLOAD/bin/saved_waves" "$DIR/images" | grep '^waves'
  restore_and_check "$1-restore" "$DIR/images"
  dump_and_kill "$1-again" "$DIR/images2"
  swap_gpus
  restore_and_check "$1-elsewhere" "$DIR/images2"
  ends_well "after the restores"
  outputs_are_equal "$1"
}

scenario_bert() { infers bert; }
scenario_resnet() { infers resnet; }
