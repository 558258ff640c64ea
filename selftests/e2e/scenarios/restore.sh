# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Operations that must succeed.

BEFORE_DUMP=20

# round_trip PROGRAM OPTIONS...: dump, restore, end
round_trip() {
  need_plugin
  start "$@"
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# fetches_lazily VERSION: CRIU's daemon has the memory that the GPU uses when the restore begins
fetches_lazily() {
  CRIU=$1
  rm -rf "$DIR/images" "$DIR/workload.log" "$DIR/lazy-pages.socket"
  start gpu_chain --userptr 64
  first_steps "$BEFORE_DUMP"
  dump_and_kill dump "$DIR/images"
  "$CRIU" lazy-pages -D "$DIR/images" -W "$DIR" -o criu-daemon.log -v4 </dev/null >/dev/null 2>&1 &
  PIDS+=("$!")
  wait_until 20 test -S "$DIR/lazy-pages.socket" || fail "$CRIU: the daemon does not listen"
  criu_restore restore "$DIR/images" --lazy-pages || fail "$CRIU: criu restore ended with status $?"
  PIDS+=("$PID")
  goes_on "$STEP_BEFORE" "$CRIU"
  all_memory_is_right "$CRIU"
  ends_well "$CRIU"
  grep -oE 'fetched [0-9]{8,} bytes of memory.*' "$DIR/criu-restore.log" || fail "$CRIU: the memory was not fetched"
}

scenario_lazy_pages() {
  need_gpus 1
  need_plugin
  fetches_lazily criu
  fetches_lazily /opt/criu-4.3/criu
  fetches_lazily /opt/criu-4.1.1/criu
}

scenario_workload_alone() {
  need_gpus 1
  start gpu_chain
  describe_workload
  [[ $USAGE =~ ^[1-9][0-9]*" queues, "[1-9] ]] || fail "KFD counts no queues or no VRAM of the workload: $USAGE"
  goes_on 0 "without a checkpoint"
  all_memory_is_right "without a checkpoint"
  ends_well "without a checkpoint"
}

scenario_one_gpu() {
  need_gpus 1
  round_trip gpu_chain --vram 32 --hidden 8 --gtt 8 --userptr 8 --small 16
  [ -e "$DIR/stats-dump" ] && [ -e "$DIR/stats-restore" ] || fail "CRIU's statistics are elsewhere"
  json "$DIR/amdgpu-stats-dump.json" "it['paused_us'] > 0 and it['bytes'] > 48 << 20"
  json "$DIR/amdgpu-stats-restore.json" "it['restore_us'] > it['waited_us']"
  json "$DIR/amdgpu-stats-restore.json" "it['bytes'] == json.load(open('$DIR/amdgpu-stats-dump.json'))['bytes']"
}

# program_as_nobody FILE OPTIONS-OF-SETPRIV COMMAND OPTIONS...: makes a program of it
program_as_nobody() {
  printf '#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups %s %s "$@" %s\n' \
    "$2" "$3" "${*:4}" >"$1"
  chmod 755 "$1"
}

YAMA=/proc/sys/kernel/yama/ptrace_scope
restore_yama() { echo "$SCOPE" >$YAMA; }

# To all users, until the scenario ends.
open_nodes() {
  NODES=$(stat -c '%a %n' /dev/kfd /dev/dri/renderD*)
  CLEANERS+=(protect_nodes)
  chmod o+rw /dev/kfd /dev/dri/renderD*
}
protect_nodes() {
  local mode node
  while read -r mode node; do chmod "$mode" "$node"; done <<<"$NODES"
}

# An ordinary user dumps and restores his process with a CRIU that has two capabilities. The second one
# is needed because of Yama.
scenario_unprivileged() {
  need_gpus 1
  local caps=+checkpoint_restore,+sys_ptrace
  SCOPE=$(cat $YAMA) || fail "this kernel has no Yama"
  CLEANERS+=(restore_yama)
  echo 1 >$YAMA
  program_as_nobody "$DIR/program" '' "$PAYLOAD/bin/gpu_chain"
  program_as_nobody "$DIR/criu" "--inh-caps $caps --ambient-caps $caps" "$CRIU" --unprivileged
  CRIU=$DIR/criu
  mkdir "$DIR/images"
  touch "$DIR/workload.log"
  chown -R 65534 "$DIR"
  open_nodes
  cd / || fail "no directory that the user may open"
  round_trip "$DIR/program" --vram 32
  [ "$(stat -c %u "$DIR/images/inventory.img")" = 65534 ] || fail "CRIU did not run as the user"
}

# Doorbells, event page and MMIO page, mapped by offsets of /dev/kfd without BOs.
scenario_own_pages() {
  need_gpus 1
  round_trip gpu_chain --own-pages 1
}

# dump_for_other_gpu WORKLOAD...: sets IDS, and restores on the second GPU until the map is changed
dump_for_other_gpu() {
  need_gpus 2
  need_plugin
  mapfile -t IDS < <(gpu_ids)
  start "$@"
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  export AMDGPU_CRIU_IGNORE=vram_size AMDGPU_CRIU_MAP=${IDS[0]}=${IDS[1]}
}

# there_and_back WORKLOAD...: is restored on the second GPU and again on the first one
there_and_back() {
  dump_for_other_gpu "$@"
  restore_and_check restore "$DIR/images"
  dump_and_kill dump-2 "$DIR/images-2"
  AMDGPU_CRIU_MAP=${IDS[1]}=${IDS[0]}
  restore_and_check restore-2 "$DIR/images-2"
  ends_well "after both restores"
}

# On the other GPU, whose doorbells the process has not mapped.
scenario_own_pages_moved() { there_and_back gpu_chain --own-pages 1; }

# The pages of both GPUs, exchanged.
scenario_own_pages_swapped() {
  need_gpus 2
  need_plugin
  start gpu_chain --own-pages 1 --gpus 2
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  swap_gpus
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# GPUs of two generations do not replace each other.
scenario_other_generation() {
  dump_for_other_gpu gpu_chain
  ! criu_restore other "$DIR/images" || fail "a GPU of another generation was accepted"
  grep -q 'does not fit: gfx_target_version' "$DIR/criu-other.log" ||
    fail "the log does not name the generation"
  nothing_runs "after the refused restore"
  unset AMDGPU_CRIU_MAP
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# An SDMA queue stays in its partition: its doorbell names an engine.
scenario_partition_kept() {
  dump_for_other_gpu gpu_chain
  ! criu_restore moved "$DIR/images" || fail "an SDMA queue has moved to another partition"
  grep -q 'doorbell is number' "$DIR/criu-moved.log" || fail "the log does not name the doorbell"
  nothing_runs "after the refused restore"
  AMDGPU_CRIU_MAP=${IDS[0]}=${IDS[0]}
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# To another partition and back. The work of render nodes is not bound to engines.
scenario_partition_moved() { there_and_back render_chain; }

# Mappings split by mprotect(), madvise() and mremap() begin inside of BOs.
scenario_split_mappings() {
  need_gpus 1
  round_trip gpu_chain --split 1
}

scenario_split_own_pages() {
  need_gpus 1
  round_trip gpu_chain --split 1 --own-pages 1
}

scenario_two_gpus() {
  need_gpus 2
  round_trip gpu_chain --gpus 2
}

scenario_rocr() {
  need_gpus 1
  round_trip rocr_chain
}

# Compiled kernels on the GPU's shader cores. A step launches five, and compares their results.
# ROCr creates a queue for the first copy to the host.
scenario_rocr_kernels() {
  STEPS_WANTED=10
  need_gpus 1
  need_plugin
  start rocr_kernels
  first_steps $BEFORE_DUMP
  all_memory_is_right "before the dump"
  describe_workload
  dump_and_kill dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

scenario_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  need_gpus 1
  round_trip gpu_chain
}

scenario_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  need_gpus 1
  round_trip gpu_chain
}

scenario_leave_running() {
  need_gpus 1
  leave_running gpu_chain
}

leave_running() { # leave_running PROGRAM OPTIONS...
  need_plugin
  start "$@"
  describe_workload
  criu_dump dump "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  local step
  step=$(last_step)
  goes_on "$step" "after the dump"
  all_memory_is_right "after the dump"
  echo "dump $DUMP_SECONDS s, step $step -> $(last_step) in the same process, all memory right"
  ends_well "after the dump"
}

scenario_three_rounds() {
  need_gpus 1
  three_rounds gpu_chain
}

three_rounds() { # three_rounds PROGRAM OPTIONS...
  need_plugin
  start "$@"
  describe_workload
  local round
  for round in 1 2 3; do
    dump_and_kill "dump-$round" "$DIR/images-$round"
    restore_and_check "restore-$round" "$DIR/images-$round"
    rm -r "$DIR/images-$round"
  done
  ends_well "after three rounds"
}

scenario_reloaded_driver() {
  need_gpus 1
  need_plugin
  start gpu_chain
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$DIR/images"
  reload_driver
  echo "driver removed and loaded again"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# dumped_under_others NAME=VALUE: and restored under that value, then the other way round
dumped_under_others() {
  local parameter=$1
  rm -rf "$DIR"/images* "$DIR/workload.log"
  start gpu_chain
  first_steps $BEFORE_DUMP
  dump_and_kill "$parameter-dump" "$DIR/images"
  reload_driver "$parameter"
  [ "$(cat "$PARAMETERS/${parameter%=*}")" = "${parameter#*=}" ] || fail "the driver does not have $parameter"
  restore_and_check "$parameter-restore" "$DIR/images"
  dump_and_kill "$parameter-back" "$DIR/images-back"
  reload_driver
  restore_and_check "$parameter-last" "$DIR/images-back"
  ends_well "$parameter"
}

# How queues are scheduled, whether waves repeat accesses that fail, and how page tables are made.
OTHER_PARAMETERS=(sched_policy=1 noretry=0 noretry=1 vm_fragment_size=4)

scenario_other_parameters() {
  need_gpus 1
  need_plugin
  local parameter which=("${OTHER_PARAMETERS[@]}")
  ((EVERY)) || which=("${which[$(number_of_seed ${#which[@]})]}")
  for parameter in "${which[@]}"; do
    dumped_under_others "$parameter"
  done
}

# Dumped by one scenario, restored by a later one, perhaps in another boot with the same scratch
# disk: the first half leaves images, log and these facts.
keep_facts() { # keep_facts NAME
  {
    printf '%s=%q\n' PID "$PID" STEP_BEFORE "$STEP_BEFORE" USAGE "$USAGE" \
      OLD_KERNEL "$(uname -r)" \
      LOG "$LOG" OLD_GPU_IDS "$(gpu_ids | tr '\n' ' ')"
    echo "OLD_BOOT=$(cat /proc/sys/kernel/random/boot_id)"
    echo "OLD_UPTIME=$(cut -d. -f1 /proc/uptime)"
  } >"$KEPT/$1.facts"
  sync
}

# dump_and_keep NAME PROGRAM OPTIONS...
dump_and_keep() {
  local name=$1
  shift
  need_plugin
  rm -rf "${KEPT:?}/$name"
  mkdir -p "$KEPT/$name"
  start "$@"
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$KEPT/$name/images"
  keep_facts "$name"
}

read_facts() { # read_facts NAME: what keep_facts wrote
  [ -e "$KEPT/$1.facts" ] || fail "there are no images: the scenario that dumps has not passed"
  # shellcheck source=/dev/null
  . "$KEPT/$1.facts"
}

restore_kept() { # restore_kept NAME, after read_facts
  need_plugin
  echo "the process had $USAGE; GPUs then $OLD_GPU_IDS now $(gpu_ids | tr '\n' ' ')"
  restore_and_check restore "$KEPT/$1/images"
  echo "GPUs: $(gpu_map restore)"
  ends_well "after the restore"
  rm -rf "${KEPT:?}/$1" "$KEPT/$1.facts"
}

another_boot() {
  [ "$OLD_BOOT" != "$(cat /proc/sys/kernel/random/boot_id)" ] || fail "this is the same boot"
}

# CRIU continues a restored process's clocks from the dump, by a time namespace, so code that uses
# the machine's clock is wrong by the time in between. That time must be longer than any timeout.
LATE_SECONDS=150

scenario_early_dump() {
  need_gpus 1
  dump_and_keep late gpu_chain
}

scenario_late_restore() {
  need_gpus 1
  local uptime
  read_facts late
  uptime=$(cut -d. -f1 /proc/uptime)
  [ $((OLD_UPTIME + LATE_SECONDS)) -le "$uptime" ] || sleep $((OLD_UPTIME + LATE_SECONDS - uptime))
  echo "dumped $(($(cut -d. -f1 /proc/uptime) - OLD_UPTIME)) s ago"
  restore_kept late
}

scenario_fresh_driver_dump() {
  need_gpus 1
  dump_and_keep fresh_driver gpu_chain
}

scenario_fresh_driver() {
  need_gpus 1
  read_facts fresh_driver
  another_boot
  restore_kept fresh_driver
}

# The restore finds other minors, and other GPUs behind them.
scenario_swapped_nodes_dump() {
  need_gpus 2
  dump_and_keep swapped_nodes render_chain --gpus 2
}

scenario_swapped_nodes() {
  need_gpus 2
  read_facts swapped_nodes
  another_boot
  restore_kept swapped_nodes
}

scenario_swapped_gpus_dump() {
  need_gpus 2
  dump_and_keep swapped_gpus gpu_chain --gpus 2
}

scenario_swapped_gpus() {
  need_gpus 2
  read_facts swapped_gpus
  another_boot
  [ "$OLD_GPU_IDS" != "$(gpu_ids | tr '\n' ' ')" ] ||
    fail "the GPUs have the same gpu_ids in the same order as at the dump"
  restore_kept swapped_gpus
}

# KFD gives the process both GPUs, and it uses one. The machine of the restore has only one.
scenario_fewer_gpus_dump() {
  need_gpus 2
  dump_and_keep fewer_gpus gpu_chain
}

scenario_fewer_gpus() {
  local -a old
  need_gpus 1
  read_facts fewer_gpus
  another_boot
  read -ra old <<<"$OLD_GPU_IDS"
  [ "$(gpu_ids | wc -l)" -lt ${#old[@]} ] || fail "there are as many GPUs as at the dump"
  restore_kept fewer_gpus
}

# At the restore, no GPU has a number of the old GPUs.
scenario_own_pages_dump() {
  need_gpus 2
  dump_and_keep own_pages gpu_chain --own-pages 1
}

scenario_own_pages_elsewhere() {
  need_gpus 2
  local id
  read_facts own_pages
  another_boot
  for id in $OLD_GPU_IDS; do
    ! gpu_ids | grep -qx "$id" || fail "GPU $id is there again"
  done
  restore_kept own_pages
}
