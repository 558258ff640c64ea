# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Processes that have applied random valid operations to their mappings, descriptors and queues. The
# resulting state is carried, or refused at the dump, never at the restore.
#
# Environment: SEED of the first process; each further process has the next number.

# carry_or_refuse SEED: sets OUTCOME
carry_or_refuse() {
  local images=$DIR/images
  LOG_NAME=mix-$1 start gpu_mix --seed "$1" --timeout 60
  if criu_dump "dump-$1" "$images"; then
    STEP_BEFORE=$(last_step)
    criu_restore "restore-$1" "$images" ||
      fail "seed $1: dumped, but cannot be restored: $(grep -m1 Error "$DIR/criu-restore-$1.log")"
    PIDS+=("$PID")
    OUTCOME=carried
  else
    grep -q 'Error .*(amdgpu): ' "$DIR/criu-dump-$1.log" || fail "seed $1: not refused by name"
    OUTCOME=refused
    echo "seed $1: $(sed -n 's/.*Error .*(amdgpu): //p' "$DIR/criu-dump-$1.log" | head -n 1)"
  fi
  alive "$PID" || fail "seed $1: there is no process $PID"
  all_memory_is_right "seed $1"
  ends_well "seed $1"
  rm -r "$images" "$LOG" "$DIR"/criu-*-"$1".log
}

scenario_generated() {
  need_gpus 1
  need_plugin
  local seed carried=0 count=8 wanted=4
  ((EVERY == 0)) || count=3000 wanted=2250
  SEED=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
  echo "seeds $SEED to $((SEED + count - 1)); repeat one with SEED=NUMBER"
  for ((seed = SEED; seed < SEED + count; seed++)); do
    carry_or_refuse "$seed"
    [ $OUTCOME = refused ] || carried=$((carried + 1))
  done
  echo "$carried of $count carried, the others refused at the dump"
  [ $carried -ge $wanted ] || fail "too few are carried"
}
