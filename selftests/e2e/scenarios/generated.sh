# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Processes that have applied random valid operations to their mappings, descriptors and queues. The
# resulting state is carried, or refused at the dump, never at the restore. A dump is of a tree of
# processes, which share nothing.
#
# Environment: SEED of the first process; each further process has the next number.

GENERATED_TREE=8 # processes

# sdma_queues: that a GPU has for programs, the least of all GPUs
sdma_queues() {
  local file key value engines each least=0
  for file in /sys/class/kfd/kfd/topology/nodes/*/properties; do
    engines=0 each=0
    while read -r key value; do
      case $key in num_sdma_engines) engines=$value ;; num_sdma_queues_per_engine) each=$value ;; esac
    done <"$file"
    ((engines * each == 0 || (least > 0 && least < engines * each))) || least=$((engines * each))
  done
  echo "$least"
}

start_mixes() { # start_mixes SEED: a tree, on all GPUs
  local seed options gpus members=()
  gpus=$(gpu_count)
  gpus=$((gpus < 2 ? gpus : 2))
  options="--gpus $gpus --queues $(($(sdma_queues) * gpus / GENERATED_TREE)) --timeout 60"
  for ((seed = $1; seed < $1 + GENERATED_TREE; seed++)); do
    members+=("gpu_mix --seed $seed $options")
  done
  TREE_ROOT=shell start_tree "${members[@]}"
}

# read_refused LOG: sets REFUSED to the member of the tree that CRIU's log names, or a child of it
read_refused() {
  local member child parent stat
  child=$(sed -n 's/.*Error .*(amdgpu): .*process \([0-9]*\) .*/\1/p' "$1" | head -n 1)
  REFUSED=
  { read -r stat <"/proc/$child/stat"; } 2>/dev/null || return
  read -r _ parent _ <<<"${stat##*) }"
  for member in "${!TREE[@]}"; do
    case ${TREE[member]} in "$child" | "$parent") REFUSED=$member ;; esac
  done
  [ -n "$REFUSED" ]
}

# dump_mixes WHAT IMAGES: ends each process that the dump refuses, until no process is left or the
# dump succeeds
dump_mixes() {
  local log=$DIR/criu-$1.log
  PID=$ROOT
  until criu_dump "$1" "$2"; do
    read_refused "$log" || fail "$1: not refused by name"
    echo "$1: $(sed -n 's/.*Error .*(amdgpu): //p' "$log" | head -n 1)"
    PID=${TREE[REFUSED]} LOG=${TREE_LOGS[REFUSED]}
    ends_well "$1, refused"
    unset "TREE[REFUSED]"
    [ ${#TREE[@]} -gt 0 ] || return 0
    rm -r "$2"
    PID=$ROOT
  done
}

# carry_or_refuse SEED: a tree; adds to CARRIED
carry_or_refuse() {
  local what="seeds $1 to $(($1 + GENERATED_TREE - 1))" images=$DIR/images
  start_mixes "$1"
  for_each all_memory_is_right "$what"
  dump_mixes "dump-$1" "$images"
  if [ ${#TREE[@]} -gt 0 ]; then
    criu_restore "restore-$1" "$images" ||
      fail "$what: dumped, but cannot be restored: $CRIU_ERROR"
    PIDS+=("$ROOT" "${TREE[@]}")
    tree_ends_well "$what"
  fi
  CARRIED=$((CARRIED + ${#TREE[@]}))
  wait_gone "$ROOT" $STEP_SECONDS || fail "$what: their parent does not end"
  rm -r "$images" "${TREE_LOGS[@]}" "$DIR"/criu-*-"$1".log
}

scenario_generated() {
  need_gpus 1
  need_plugin
  local seed count=6
  CARRIED=0
  ((EVERY == 0)) || count=3000
  echo "seeds $SEED to $((SEED + count - 1)); SEED=NUMBER begins with another one"
  for ((seed = SEED; seed < SEED + count; seed += GENERATED_TREE)); do
    carry_or_refuse "$seed"
  done
  echo "$CARRIED of $count carried, the others refused at the dump"
  [ "$CARRIED" -ge $((count * 3 / 4)) ] || fail "too few are carried"
}
