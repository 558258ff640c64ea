# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Processes that use render nodes: alone, in groups that share memory, and together with KFD.

scenario_render_alone() {
  need_gpus 1
  start render_chain
  describe_workload
  goes_on 0 "without a checkpoint"
  all_memory_is_right "without a checkpoint"
  ends_well "without a checkpoint"
}

scenario_render_one_gpu() {
  need_gpus 1
  round_trip render_chain --vmid 1
}

scenario_render_two_gpus() {
  need_gpus 2
  round_trip render_chain --gpus 2
}

# need_peer_bars: GPUs that reach one another's VRAM through PCIe. Those of one XGMI hive do so without DMA addresses,
# which the driver does not provide on render nodes.
need_peer_bars() {
  local node=/sys/class/kfd/kfd/topology/nodes
  ! grep -qs '^hive_id [1-9]' $node/*/properties || skip "the GPUs are in an XGMI hive"
  compgen -G "$node/*/p2p_links/*" >/dev/null || skip "no GPU reaches the VRAM of another one through PCIe"
}

scenario_render_peer_vram() {
  need_gpus 2
  need_peer_bars
  round_trip render_chain --gpus 2 --peer-vram 1
}

scenario_render_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  need_gpus 1
  round_trip render_chain
}

scenario_render_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  need_gpus 1
  round_trip render_chain
}

# User queues, which only Navi 31 has. On other GPUs the workload skips them.
scenario_render_queues() {
  need_gpus 1
  round_trip render_queues
}

scenario_render_queues_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  need_gpus 1
  round_trip render_queues
}

scenario_render_queues_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  need_gpus 1
  round_trip render_queues
}

scenario_render_queues_leave_running() {
  need_gpus 1
  leave_running render_queues
}

scenario_render_queues_three_rounds() {
  need_gpus 1
  three_rounds render_queues
}

scenario_render_leave_running() {
  need_gpus 1
  leave_running render_chain
}

scenario_render_three_rounds() {
  need_gpus 2
  three_rounds render_chain --gpus 2
}

scenario_render_many() {
  need_gpus 1
  local many=2500
  ((EVERY == 0)) || many=10000
  many=$((many / ${CRIU_TEST_SAMPLE:-1}))
  echo "$many BOs"
  round_trip render_chain --many $many
}

# Memory as ROCm's virtual-memory API creates it: KFD and a render node with one VM.
scenario_render_vmm() {
  need_gpus 1
  three_rounds render_vmm # images of a restored process have its freed memory as a file
}

scenario_render_fork() {
  need_gpus 1
  round_trip_group render_group fork
}

scenario_render_family() {
  need_gpus 2
  round_trip_group render_group family
}

scenario_render_family_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  need_gpus 2
  round_trip_group render_group family
}

scenario_render_family_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  need_gpus 2
  round_trip_group render_group family
}

# The leader of a group reports for all its processes; USAGE is the usage of the leader.
round_trip_group() { round_trip "$@"; }

# Two programs that connect through a socket in the file system.
scenario_render_unrelated() {
  need_gpus 1
  need_plugin
  start_tree "render_group join $DIR/socket" "render_group serve $DIR/socket"
  # The joining process reports no steps of its own.
  TREE=("${TREE[1]}") TREE_LOGS=("${TREE_LOGS[1]}")
  round_trip_tree
}

# From start_tree to the end.
round_trip_tree() {
  for_each first_steps "$BEFORE_DUMP"
  dump_and_kill_tree dump "$DIR/images"
  restore_and_check_tree restore "$DIR/images"
  tree_ends_well "after the restore"
}

# --- several processes with /dev/kfd

scenario_tree_of_two() {
  need_gpus 1
  need_plugin
  start_tree "gpu_chain" "gpu_chain"
  round_trip_tree
}

scenario_tree_two_gpus() {
  need_gpus 2
  need_plugin
  start_tree "gpu_chain --gpus 2" "render_chain --gpus 2" "render_vmm" \
    "gpu_chain"
  round_trip_tree
}

scenario_tree_criu_4_1_1() {
  CRIU=/opt/criu-4.1.1/criu
  scenario_tree_of_two
}

scenario_tree_criu_4_3() {
  CRIU=/opt/criu-4.3/criu
  scenario_tree_of_two
}

scenario_tree_leave_running() {
  need_gpus 2
  need_plugin
  start_tree "render_chain" "gpu_chain" "gpu_chain --gpus 2"
  PID=$ROOT
  criu_dump dump "$DIR/images" --leave-running || fail "criu dump ended with status $?"
  for_each member_survives "after the dump"
  tree_ends_well "after the dump"
}

# Memory of all processes, copied while they compute, is not written again.
scenario_tree_pre_dump() {
  gpu_usage() { kfd_usage; } # as in pre_dump
  need_gpus 2
  need_plugin
  local small="--vram 1 --hidden 1 --gtt 1 --userptr 1 --small 4"
  start_tree "gpu_chain --gpus 2 $small" "gpu_chain $small"
  for_each first_steps "$BEFORE_DUMP"
  PID=$ROOT
  pre_dump first
  grep -q 'pre-dump of 2 processes' "$DIR/first.out" || fail "not both processes were copied"
  for_each member_goes_on_after "the pre-dump"
  dump_and_kill_tree dump "$DIR/images" --track-mem --prev-images-dir ../first
  local left copied=$STORED
  left=$(contents_fact dump '\): GPU [^ ]+ ([0-9]+) bytes stored')
  [ "$left" -lt $((copied / 4)) ] || fail "the dump stored $left bytes, the pre-dump $copied"
  restore_and_check_tree restore "$DIR/images"
  tree_ends_well "after the restore"
}

# The second of two processes cannot be saved: both continue.
scenario_tree_disk_full() {
  need_gpus 1
  need_plugin
  start_tree "gpu_chain --vram 24" "render_chain" "gpu_chain --vram 24"
  mkdir "$DIR/tiny"
  mount -t tmpfs -o size=40m tmpfs "$DIR/tiny" || fail "no tmpfs"
  PID=$ROOT
  ! criu_dump dump "$DIR/tiny/images" || fail "a dump of three workloads fitted in 40 MiB"
  ends_with_full_disk dump
  umount "$DIR/tiny"
  for_each member_survives "disk full"
  echo "all three go on"
  tree_ends_well "after a full disk"
}

# --- again and again

# All workloads with shared state in one tree, dumped and restored ROUNDS times. Parents and the
# order at restore differ in each round and each run; SEED repeats a run.
scenario_soak() {
  need_gpus 2
  need_plugin
  local round rounds=${ROUNDS:-1} seed=$SEED
  echo "$rounds rounds, SEED=$seed"
  RANDOM=$seed
  local workloads=("gpu_chain --gpus 2" "render_chain --gpus 2" "render_vmm"
    "render_group fork" "render_group family" "gpu_chain")
  shuffle_workloads
  printf '%s\n' "${workloads[@]}"
  start_tree "${workloads[@]}"
  STEPS_WANTED=20
  for ((round = 1; round <= rounds; round++)); do
    for_each first_steps "$BEFORE_DUMP"
    dump_and_kill_tree "dump-$round" "$DIR/images"
    export AMDGPU_CRIU_TEST_RESTORE_DELAY=$RANDOM
    restore_and_check_tree "restore-$round" "$DIR/images"
    rm -rf "$DIR/images" "$DIR"/criu-*.log
  done
  tree_ends_well "after $rounds rounds"
}

shuffle_workloads() { # the array of its caller; the same for the same RANDOM
  local i other kept
  for ((i = ${#workloads[@]} - 1; i > 0; i--)); do
    other=$((RANDOM % (i + 1)))
    kept=${workloads[i]}
    workloads[i]=${workloads[other]}
    workloads[other]=$kept
  done
}

# --- what is refused by its name

# CASE and the reason, an extended regular expression: the plugin's, or CRIU's if CRIU refuses
# first.
refused_states() {
  cat <<'END'
node_in_socket  \(amdgpu\): .* is open in no process that was paused \(its descriptor may be in flight in a UNIX socket\); it cannot be carried$
udmabuf         \(amdgpu\): .* cannot carry: a BO of another driver \(handle [0-9]+\) \(kernel operation PROCESS_INFO failed: Operation not supported\)$
udmabuf_fd      Can't dump file [0-9]+ of that type \[600\] \(unknown /dmabuf:\)$
syncobj_fd      Can't dump file [0-9]+ of that type \[600\] \(anon anon_inode:syncobj_file\)$
fence_fd        Can't dump file [0-9]+ of that type \[600\] \(anon anon_inode:sync_file\)$
eventfd         \(amdgpu\): .* cannot carry: an eventfd waits for syncobj [0-9]+ \(kernel operation PROCESS_INFO failed: Operation not supported\)$
card_node       \(amdgpu\): .*/dev/dri/card[0-9]+ is a card node; state of card nodes \(screens, leases\) cannot be carried, only that of render nodes$
foreign_userptr \(amdgpu\): .* cannot carry: a userptr of another process \(handle [0-9]+\) \(kernel operation PROCESS_INFO failed: Operation not supported\)$
mapped_dmabuf   Unknown shit 600 \(/dmabuf:\)$
outside_dmabuf  \(amdgpu\): .*process [0-9]+ \(sleep\), which is not dumped, has a dma-buf descriptor of GPU memory of dumped processes: the BO of [0-9]+ bytes with handle [0-9]+ in process [0-9]+\. .*amdgpu\.cut-sharing=1$
outside_node    \(amdgpu\): .*process [0-9]+ \(sleep\), which is not dumped, has the open renderD[0-9]+ of process [0-9]+ \(render_refused\) as descriptor 0\. .*amdgpu\.cut-sharing=1$
only_mapped     \(amdgpu\): .* which is not memory of a BO of any open file \(its handle may have been closed after the mapping\); such a mapping cannot be carried$
END
}

released() { log_has released || gone "$PID"; }

# refuse_state CASE REASON
refuse_state() {
  local state=$1 reason=$2 said
  LOG_NAME=workload-$state
  start render_refused "$state"
  ! criu_dump "$state" "$DIR/images-$state" || fail "$state: CRIU dumped it"
  said=$(grep -E "Error .*$reason" "$DIR/criu-$state.log" | tail -n 1)
  [ -n "$said" ] || fail "$state: refused, but not for $reason"
  echo "$state: $said"
  survives "$state"
  kill -USR2 "$PID"
  wait_until 30 released || fail "$state: the workload does not release it"
  ends_well "$state"
}

scenario_render_refused() {
  need_gpus 1
  need_plugin
  local state reason count=0
  while read -r state reason; do
    refuse_state "$state" "$reason"
    count=$((count + 1))
  done < <(refused_states)
  [ $count -gt 0 ] && [ $count -eq "$(refused_states | wc -l)" ] || fail "only $count states were tried"
}

# cut_sharing STATE: what a program outside of the tree has is copied
cut_sharing() {
  LOG_NAME=workload-$1
  start render_refused "$1"
  first_steps 20
  AMDGPU_CRIU_CUT_SHARING=1 dump_and_kill "$1-dump" "$DIR/images-$1"
  grep 'amdgpu.cut-sharing allows separate copies' "$DIR/criu-$1-dump.log" || fail "$1: nothing was shared"
  restore_and_check "$1-restore" "$DIR/images-$1"
  kill -USR2 "$PID"
  wait_until 30 released || fail "$1: the workload does not release it"
  ends_well "$1"
}

scenario_render_cut_sharing() {
  need_gpus 1
  need_plugin
  cut_sharing outside_dmabuf
  cut_sharing outside_node
}

# A checkpoint succeeds when the refused state no longer exists.
scenario_render_after_refusal() {
  need_gpus 1
  need_plugin
  start render_refused udmabuf
  ! criu_dump refused "$DIR/images" || fail "CRIU dumped a BO of another driver"
  "$TOOL" check --pid "$PID" >"$DIR/check" && fail "a dry run allows what a dump refuses"
  grep '^BAD ' "$DIR/check" || fail "a dry run does not say why: $(cat "$DIR/check")"
  kill -USR2 "$PID"
  wait_until 30 released || fail "the workload does not release it"
  first_steps 20
  "$TOOL" check --pid "$PID" || fail "a dry run refuses what a dump allows"
  dump_and_kill dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# A dma-buf descriptor that one process has sent, and that was not received yet.
scenario_render_in_flight() {
  need_gpus 1
  need_plugin
  start render_refused socket
  first_steps 20
  dump_and_kill dump "$DIR/images"
  restore_and_check restore "$DIR/images"
  kill -USR2 "$PID"
  wait_until 30 released || fail "the descriptor is not received"
  goes_on "$(last_step)" "after the descriptor was received"
  echo "received after the restore, and it is the dma-buf that was sent"
  ends_well "after the restore"
}

# More work is under way than a dump waits for.
scenario_render_busy() {
  need_gpus 1
  need_plugin
  local feeder
  start render_refused busy
  feeder=$PID
  PID=$(fact pid)
  PIDS+=("$PID")
  ! AMDGPU_CRIU_TIMEOUT=2 criu_dump late "$DIR/late" || fail "CRIU dumped a process whose GPU was busy"
  grep 'Error.*longer than the 2 s of amdgpu.timeout' "$DIR/criu-late.log" || fail "no deadline"
  ! criu_dump busy "$DIR/images" || fail "CRIU dumped a process whose GPU was busy for minutes"
  grep 'Error.*does not complete submitted work' "$DIR/criu-busy.log" || fail "refused, but not by its name"
  echo "refused after $DUMP_SECONDS s"
  kill -USR2 "$feeder"
  survives "after the refused dump"
  ends_well "after the refused dump"
}

# open_door FILE: a number that counts up, in memory that the processes share with this program
open_door() {
  truncate -s 4096 "$1"
  python3 -c 'import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    door = memoryview(mmap.mmap(file.fileno(), 4096)).cast("I")
while True:
    time.sleep(0.3)
    door[0] += 1' "$1" &
  OPENER=$!
  PIDS+=("$OPENER")
}
open_when_paused() {
  wait_until 60 has_paused dump
  kill -CONT "$OPENER"
}

# A queue is stopped before the process whose job waits for it.
scenario_render_awaits() {
  local round
  need_gpus 1
  need_plugin
  open_door "$DIR/door"
  start render_awaits "$DIR/door"
  first_steps 2
  for round in 1 2 3; do
    "$TOOL" freeze --pid "$PID" || fail "freeze $round: status $?"
    "$TOOL" thaw --pid "$PID" || fail "thaw $round: status $?"
    sleep 1
  done
  goes_on "$(last_step)" "after it was frozen"
  kill -STOP "$OPENER"
  open_when_paused &
  dump_and_kill dump "$DIR/images"
  grep -ao 'work of process .* is paused already runs meanwhile' "$DIR/criu-dump.log" || fail "no work was waited for"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}
