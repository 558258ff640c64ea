# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Jobs of Slurm in a pair of guests: an ordinary user's job loses node 1, which has one GPU, and continues
# on node 2, where another job has the first of two GPUs. The last scenario runs the helper alone.

CHECKPOINTS=/shared/checkpoints
SLURM_SECONDS=120

# need_cluster: starts it, if no scenario before has done so
need_cluster() {
  need_pair
  need_plugin
  command -v slurmd >/dev/null || fail "there is no Slurm: selftests/vm/pair --both '--image slurm'"
  if ! pidof slurmctld >/dev/null; then
    "$PAYLOAD/e2e/slurm-node" >"$DIR/slurm-node.log" 2>&1 || fail "the cluster does not start here"
    on_node1 90 "$PAYLOAD/e2e/slurm-node" || fail "the cluster does not start on node 1"
  fi
  mkdir -p "$CHECKPOINTS"
  wait_until 90 nodes_are_up || fail "nodes are not up: $(sinfo 2>&1; tail -n 20 /shared/*.log)"
  CLEANERS+=(cancel_jobs)
  occupy node2
}

nodes_are_up() { [ "$(sinfo -h -N -p batch -o %t 2>/dev/null | sort -u)" = idle ]; }

cancel_jobs() {
  scancel -u alice
  wait_until 60 no_jobs
  rm -rf "${CHECKPOINTS:?}"/*
}
no_jobs() { [ -z "$(squeue -h)" ]; }

# submit OPTIONS... COMMAND: prints the job's number
submit() {
  runuser -u alice -- sbatch --parsable -D /shared/alice -o '/shared/alice/%j.out' \
    --gres=gpu:1 "${@:1:$#-1}" --wrap "exec ${!#}"
}

job_field() { # job_field JOB NAME
  scontrol show job "$1" | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d= -f2-
}
job_is() { # job_is JOB STATE NODE RESTARTS
  local text
  text=" $(scontrol show job "$1" 2>/dev/null | tr '\n' ' ')"
  [[ $text == *" JobState=$2 "* && $text == *" NodeList=$3 "* && $text == *" Restarts=$4 "* ]]
}
wait_for_job() { # wait_for_job JOB STATE NODE RESTARTS
  wait_until $SLURM_SECONDS job_is "$@" ||
    fail "job $1 is not $2 on $3: $(scontrol show job "$1"; tail -n 20 "$LOG" /shared/*.log)"
}

# occupy NODE: an urgent job takes a GPU of it, for longer than the scenario
occupy() {
  submit -p urgent -w "$1" 'sleep 3600' >/dev/null || fail "no urgent job for $1"
}

# start_job OPTIONS-OF-WRAPPER PROGRAM OPTIONS...: on node 1; sets JOB and LOG. Two guests that have just booted would
# use the same PIDs.
start_job() {
  local wrapper=$1
  shift
  on_node1 20 'echo 30000 >/proc/sys/kernel/ns_last_pid' || fail "node 1 does not answer"
  JOB=$(submit --requeue --open-mode=append --signal=B:USR1@60 -t 60 \
    "amdgpu-criu-job $wrapper -- $PAYLOAD/bin/$*") || fail "sbatch has refused the job"
  LOG=/shared/alice/$JOB.out
  wait_for_job "$JOB" RUNNING node1 0
  wait_until 60 log_is_there || fail "the job has no output: $(tail -n 20 /shared/*.log)"
  wait_until 120 log_has 'ready: ' || fail "the job is not ready"
}

log_is_there() { [ -s "$LOG" ]; }

steps_done() { local STEP; read_last_step; [ "$STEP" -ge "$1" ]; }

# is_on_node2 PROGRAM: requeued once, and started there; sets PID
is_on_node2() {
  wait_for_job "$JOB" RUNNING node2 1
  wait_until 60 pid_of_job "$1" || fail "$1 does not run on node 2: $(tail -n 5 "$LOG")"
  PIDS+=("$PID")
}
pid_of_job() { PID=$(pgrep -n -x -u alice "$1"); }

# Each number once and in order; with `again`, some that were done after the checkpoint come again.
steps_are_unbroken() {
  sed -n 's/^step \([0-9]*\).*/\1/p' "$LOG" | awk -v again="${1-}" '
    NR > 1 && $1 != last + 1 { if (again && $1 <= last && !back++) { last = $1; next } exit 1 }
    { last = $1 }' || fail "the steps are broken: $(grep -n '^step' "$LOG" | cut -c1-40 | tail -n 60)"
}

# finishes_well: the program compares all its memory and ends; its job is complete, its checkpoint gone
finishes_well() {
  has_open_only $SECOND_MINOR
  all_memory_is_right "on node 2"
  steps_are_unbroken "${1-}"
  ends_well "on node 2"
  wait_until 60 job_is "$JOB" COMPLETED node2 1 || fail "the job is $(job_field "$JOB" JobState)"
  [ ! -e "$CHECKPOINTS/$(id -u alice)/$JOB" ] || fail "its checkpoint is still there"
  grep '^amdgpu-criu-job:' "$LOG"
}

scenario_slurm_preempted() {
  need_gpus 2
  need_cluster
  start_job '' gpu_chain
  wait_until 60 steps_done 10 || fail "no steps"
  occupy node1
  is_on_node2 gpu_chain
  wait_until 60 log_has 'amdgpu-criu-job: restored from checkpoint 1' || fail "it was not restored"
  wait_until 60 steps_done $(($(last_step) + 10)) || fail "no steps on node 2"
  finishes_well
}

# It continues until its grace time is over.
scenario_slurm_refused() {
  need_gpus 2
  need_cluster
  start_job '' 'render_refused eventfd'
  occupy node1
  wait_until 60 log_has 'amdgpu-criu-job: the program continues' || fail "the output does not say so"
  grep 'no checkpoint: .*cannot carry: an eventfd waits for syncobj' "$LOG" || fail "no reason in the output"
  local step
  step=$(last_step)
  wait_until 30 steps_done $((step + 5)) || fail "it does not go on"
  is_on_node2 render_refused
  wait_until 60 started_twice || fail "the output does not say that it starts from the beginning"
  grep '^amdgpu-criu-job:' "$LOG"
}

started_twice() { [ "$(grep -c '^amdgpu-criu-job: starts from the beginning' "$LOG")" = 2 ]; }

# The last scenario, because it ends node 1, which fails while it writes the second checkpoint.
node1_is_gone() { ! busybox ping -c 3 -W 2 node1 >/dev/null; }

scenario_slurm_node_lost() {
  need_gpus 2
  need_cluster
  local checkpoints
  start_job '--every 10' gpu_chain
  checkpoints=$CHECKPOINTS/$(id -u alice)/$JOB
  wait_until 60 [ -e "$checkpoints/1" ] || fail "there is no checkpoint"
  # A dump that has ended before criu is stopped does not count: the next one does.
  ask_node1 "until compgen -G '$checkpoints/new/amdgpu-*' >/dev/null && pkill -STOP -x criu; do sleep 0.1; done
    echo b >/proc/sysrq-trigger"
  wait_until 60 node1_is_gone || fail "node 1 has not failed"
  [ -e "$checkpoints/new" ] || fail "it has not failed in the middle of a dump"
  is_on_node2 gpu_chain
  wait_until 60 log_has 'amdgpu-criu-job: restored from checkpoint' || fail "it was not restored"
  wait_until 60 steps_done $(($(last_step) + 10)) || fail "no steps on node 2"
  finishes_well again
}

# job_helper COMMAND: for job 77 of nobody
job_helper() {
  SUDO_UID=65534 SUDO_GID=65534 CRIU_LIBS_DIR=$PLUGIN_DIR sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' \
    "$JOB" "$PAYLOAD/slurm/job-helper" "$@"
}
job_says() { grep -q "^$1 " "$DIR/said"; }

# run_job VERB: sets PID and JOB_PID
run_job() {
  job_helper run <"$DIR/spec" >"$DIR/said" 2>>"$DIR/job.log" &
  JOB_PID=$!
  PIDS+=("$JOB_PID")
  wait_until 120 job_says "$1" || fail "the job was not $1"
  PID=$(pgrep -x -u nobody gpu_chain)
  PIDS+=("$PID")
}

# Without Slurm. The first restore finds a PID in use.
scenario_job_helper() {
  local other
  need_gpus 1
  need_plugin
  JOB=/sys/fs/cgroup/system.slice/slurmstepd.scope/job_77/step LOG=$DIR/workload.log
  mkdir -p "$JOB" "$DIR/checkpoints"
  open_nodes
  install -o nobody /dev/null "$LOG"
  echo "directory = $DIR/checkpoints" >/etc/amdgpu-criu-job.conf
  python3 -c "import json, os; print(json.dumps({'argv': ['$PAYLOAD/bin/gpu_chain'], 'env': dict(os.environ),
    'cwd': '/', 'umask': 18, 'output': '$LOG', 'errors': '$LOG'}))" >"$DIR/spec"
  first_pid_of_scenario
  run_job started
  first_steps "$BEFORE_DUMP"
  job_helper dump 2>>"$DIR/job.log" || fail "the job was not dumped"
  wait_gone "$PID" 20 || fail "the dumped process is still there"
  wait "$JOB_PID"
  STEP_BEFORE=$(last_step)
  echo $((PID - 1)) >/proc/sys/kernel/ns_last_pid
  sleep 300 &
  other=$!
  [ "$other" = "$PID" ] || fail "the other program has PID $other, not $PID"
  echo 1000 >/proc/sys/kernel/ns_last_pid
  job_helper run <"$DIR/spec" >"$DIR/said" 2>>"$DIR/job.log"
  [ $? -eq 1 ] || fail "the job was restored although process $PID was there"
  [ ! -s "$DIR/said" ] || fail "the helper says $(cat "$DIR/said") of a job that was not restored"
  grep "was not restored: .*Can't fork for $PID: File exists" "$DIR/job.log" || fail "no reason"
  kill "$other"
  wait "$other"
  run_job restored
  goes_on "$STEP_BEFORE" "after the restore"
  all_memory_is_right "after the restore"
  ends_well "after the restore"
  wait "$JOB_PID" || fail "the job ended with status $?"
  cat "$DIR/job.log"
}
