# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A training run is dumped in the middle of kernels, and restored. The loss of each step and the
# weights at its end are those of an undisturbed run, to the bit.

TRAIN_STEPS=24

undisturbed_training() { # undisturbed_training OPTIONS...
  STEPS_WANTED=1
  LOG_NAME=undisturbed start rocr_train --steps "$TRAIN_STEPS" "$@"
  wait_gone "$PID" $((TRAIN_STEPS * 10)) || fail "the undisturbed run does not end"
}

# dump_with_waves WHAT IMAGES: a dump may fall between two kernels; then the process is restored and
# dumped again
dump_with_waves() {
  local waves try
  for try in 1 2 3; do
    dump_and_kill "$1" "$2"
    waves=$("$PAYLOAD/bin/saved_waves" "$2") || fail "saved waves of $2: $waves"
    echo "$waves"
    [ "${waves##*waves }" = 0 ] || return 0
    restore_and_check "$1-$try" "$2"
    rm -r "$2"
  done
  fail "$1: no dump has met waves"
}

# interrupted_training COUNT OPTIONS...: restored in turn on its GPUs, and with both exchanged; its
# results must be those of DIR/undisturbed.log
interrupted_training() {
  local count=$1 number
  shift
  ((EVERY == 0)) || count=6
  start rocr_train --steps "$TRAIN_STEPS" "$@"
  first_steps 2
  for ((number = 1; number <= count; number++)); do
    unset AMDGPU_CRIU_MAP
    dump_with_waves "dump-$number" "$DIR/images"
    ((number % 2)) || swap_gpus
    restore_and_check "restore-$number" "$DIR/images"
    echo "GPUs: $(gpu_map "restore-$number")"
    rm -r "$DIR/images"
  done
  wait_gone "$PID" $((TRAIN_STEPS * 10)) || fail "the run does not end"
  same_training "$DIR/undisturbed.log" "$LOG"
}

results() { grep -hE '^(member [0-9]+ )?(step|weights) ' "$1" | sort; }

same_training() { # same_training LOG LOG: compares all members
  local weights
  [ "$(results "$1" | grep -c 'step ')" -ge "$TRAIN_STEPS" ] ||
    fail "the undisturbed run: $(tail -n 5 "$1")"
  diff <(results "$1") <(results "$2") || fail "the run that was restored differs"
  weights=$(results "$1" | sed -n 's/.*weights //p' | sort -u)
  [ -n "$weights" ] && [ "$(wc -l <<<"$weights")" -eq 1 ] || fail "members differ: $weights"
  log_has 'final ok' || fail "$(tail -n 2 "$2")"
  echo "$(grep -m 1 '^step 1 ' "$1"), $(grep "^step $TRAIN_STEPS " "$1"), weights $weights: the same"
}

# need_steps COUNT: of a training run; more in a campaign
need_steps() {
  need_gpus 2
  need_plugin
  TRAIN_STEPS=$1
  ((EVERY == 0)) || TRAIN_STEPS=96
}

scenario_rocr_train() {
  need_steps 24
  undisturbed_training
  interrupted_training 2
}

# Each of two GPUs has a member of the run, and its waves wait for those of the other one: in one
# process, then in two, with the gradients in a buffer that one of them has exported.
scenario_train_together() {
  need_steps 12
  undisturbed_training --gpus 2
  interrupted_training 1 --gpus 2
  LOG_NAME=two-processes interrupted_training 1 --processes 2
}

# Over a reboot: the images, the log, and the log of the undisturbed run are kept.
scenario_train_reboot_dump() {
  need_gpus 1
  need_plugin
  rm -rf "$KEPT/train"
  mkdir -p "$KEPT/train"
  undisturbed_training
  cp "$LOG" "$KEPT/train/undisturbed.log"
  start rocr_train --steps "$TRAIN_STEPS"
  first_steps 2
  dump_with_waves dump "$KEPT/train/images"
  keep_facts train
}

scenario_train_reboot() {
  need_gpus 1
  need_plugin
  STEPS_WANTED=1
  read_facts train
  another_boot
  restore_and_check restore "$KEPT/train/images"
  wait_gone "$PID" $STEP_SECONDS || fail "the run does not end"
  same_training "$KEPT/train/undisturbed.log" "$LOG"
  rm -rf "${KEPT:?}/train" "$KEPT/train.facts"
}
