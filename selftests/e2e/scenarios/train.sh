# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# A training run is dumped in the middle of kernels, and restored. The loss of each step and the
# weights at its end are those of an undisturbed run, to the bit.

# undisturbed_training STEPS OPTIONS...
undisturbed_training() {
  local steps=$1
  shift
  STEPS_WANTED=1
  rm -f "$DIR/undisturbed.log"
  LOG_NAME=undisturbed start rocr_train --steps "$steps" "$@"
  wait_gone "$PID" $((steps * 10)) || fail "the undisturbed run does not end"
}

# compare_with_undisturbed OPTIONS...: ends the run, and makes as many steps undisturbed
compare_with_undisturbed() {
  local log=$LOG
  ends_well "a run that was restored"
  undisturbed_training "$(last_step)" "$@"
  same_training "$LOG" "$log"
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

# interrupted_training COUNT OPTIONS...: restored in turn on its GPUs, and with both exchanged
interrupted_training() {
  local count=$1 number
  shift
  need_gpus 2
  need_plugin
  STEPS_WANTED=1
  ((EVERY == 0)) || count=6
  start rocr_train "$@"
  first_steps 2
  for ((number = 1; number <= count; number++)); do
    unset AMDGPU_CRIU_MAP
    dump_with_waves "dump-$number" "$DIR/images"
    ((number % 2)) || swap_gpus
    restore_and_check "restore-$number" "$DIR/images"
    echo "GPUs: $(gpu_map "restore-$number")"
    rm -r "$DIR/images"
  done
}

results() { grep -hE '^(member [0-9]+ )?(step|weights) ' "$1" | sort; }

same_training() { # same_training LOG LOG: compares all members
  local weights
  grep -q '^final ok' "$1" || fail "the undisturbed run: $(tail -n 5 "$1")"
  diff <(results "$1") <(results "$2") || fail "the run that was restored differs"
  weights=$(results "$1" | sed -n 's/.*weights //p' | sort -u)
  [ -n "$weights" ] && [ "$(wc -l <<<"$weights")" -eq 1 ] || fail "members differ: $weights"
  grep -q '^final ok' "$2" || fail "$(tail -n 2 "$2")"
  echo "$(grep -m 1 '^step 1 ' "$1"), $(grep '^step ' "$1" | tail -n 1), weights $weights: the same"
}

scenario_rocr_train() {
  interrupted_training 2
  compare_with_undisturbed
}

# Each of two GPUs has a member of the run, and its waves wait for those of the other one: in one
# process, then in two, with the gradients in a buffer that one of them has exported.
scenario_train_together() {
  interrupted_training 1 --gpus 2
  compare_with_undisturbed --gpus 2
  LOG_NAME=two-processes interrupted_training 1 --processes 2
  compare_with_undisturbed --gpus 2
}

# Over a reboot: the images and the log are kept.
scenario_train_reboot_dump() {
  need_gpus 1
  need_plugin
  STEPS_WANTED=1
  rm -rf "$KEPT/train"
  mkdir -p "$KEPT/train"
  start rocr_train
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
  compare_with_undisturbed
  rm -rf "${KEPT:?}/train" "$KEPT/train.facts"
}
