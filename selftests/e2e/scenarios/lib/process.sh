# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The workload process: gpu_chain, rocr_chain or rocr_kernels. Its log reports its complete state.

STEPS_WANTED=40
STEP_SECONDS=120
START_SECONDS=120

# Functions that are called many times a second, or in every scenario, start no program if the shell
# can do the work: a program costs an emulated processor a twentieth of a second, a subshell half of
# that.

# False also for a zombie: CRIU does not reap all of its children.
alive() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  [[ ${stat##*) } != [ZX]* ]]
}

# log_has TEXT: a line of the log begins with it
log_has() { [[ $'\n'$(<"$LOG")$'\n' == *$'\n'"$1"* ]]; }

# A process without a number, which no command has found, is not one that has ended.
gone() {
  [ -n "$1" ] || fail "the number of a process is not known"
  ! alive "$1"
}
wait_gone() { wait_until "$2" gone "$1"; }

need_gpus() {
  local file id count=0
  for file in /sys/class/kfd/kfd/topology/nodes/*/gpu_id; do
    [ ! -e "$file" ] || read -r id <"$file"
    [ "${id:-0}" = 0 ] || count=$((count + 1))
  done
  [ "$count" -ge "$1" ] || skip "needs $1 GPUs, this machine has $count"
}

# Pids of different scenarios are far apart and high: a process must get its own back, also after
# a reboot.
first_pid_of_scenario() {
  local sum=0 at letter
  for ((at = 0; at < ${#NAME}; at++)); do
    printf -v letter %d "'${NAME:at:1}"
    sum=$(((sum * 31 + letter) % 10000))
  done
  echo $((20000 + sum)) >/proc/sys/kernel/ns_last_pid
}

# start PROGRAM OPTIONS...: sets PID and LOG. The program is in $PAYLOAD/bin, unless it is a path.
start() {
  local program=$PAYLOAD/bin/$1 status
  [[ $1 != /* ]] || program=$1
  shift
  LOG=$DIR/${LOG_NAME:-workload}.log
  [ -x "$program" ] || fail "$program is missing"
  first_pid_of_scenario
  : >>"$LOG"
  setsid "$program" "$@" </dev/null >>"$LOG" 2>&1 &
  PID=$!
  PIDS+=("$PID")
  wait_until $START_SECONDS started || fail "the workload is not ready after $START_SECONDS s"
  if gone "$PID"; then
    wait "$PID"
    status=$?
    [ $status -eq "$SKIP" ] && skip "$(sed -n 's/^skip: //p' "$LOG")"
    fail "the workload ended with status $status"
  fi
  disown "$PID"
}

started() { log_has 'ready: ' || gone "$PID"; }

# read_ready_line: sets READY
read_ready_line() {
  READY=$'\n'$(<"$LOG")
  READY=${READY#*$'\nready: '}
  READY=${READY%%$'\n'*}
}

fact() { # fact WORD: the number after it in the ready line
  local READY
  read_ready_line
  READY=" $READY"
  READY=${READY##*" $1 "}
  echo "${READY%%[!0-9]*}"
}

# read_last_step: sets STEP
read_last_step() {
  local text
  text=$'\n'$(<"$LOG")
  STEP=0
  [[ $text == *$'\nstep '* ]] || return 0
  # The end of the log usually has a step; searching a long text from its end is slow.
  [[ ${text: -1000} != *$'\nstep '* ]] || text=${text: -1000}
  text=${text##*$'\nstep '}
  STEP=${text%%[!0-9]*}
}

last_step() {
  local STEP
  read_last_step
  echo "$STEP"
}

reached_or_gone() {
  local STEP
  read_last_step
  [ "$STEP" -ge "$1" ] || gone "$PID"
}

first_steps() { # first_steps STEP: checks that it is alive and has done that many
  wait_until $STEP_SECONDS reached_or_gone "$1" || fail "no $1 steps after $STEP_SECONDS s"
  alive "$PID" || fail "the process is gone before step $1"
}

# goes_on FROM WHAT: checks that the process is alive and does STEPS_WANTED steps after FROM
goes_on() {
  local target=$(($1 + STEPS_WANTED))
  wait_until $STEP_SECONDS reached_or_gone $target ||
    fail "$2: stuck at step $(last_step), expected $target; state $(sed -n 's/^State:\t//p' /proc/"$PID"/status)"
  alive "$PID" || fail "$2: the process is gone at step $(last_step)"
}

# verdict_or_gone LENGTH: sets NEW to the log after that many characters; true if it has a verdict
verdict_or_gone() {
  NEW=$'\n'$(<"$LOG")
  NEW=${NEW:$1}
  [[ $NEW == *$'\nverify '* ]] || gone "$PID"
}

# all_memory_is_right WHAT: asks the process to compare all of it
all_memory_is_right() {
  local NEW before
  before=$(<"$LOG")
  kill -USR1 "$PID" || fail "$1: the process is gone"
  wait_until $STEP_SECONDS verdict_or_gone ${#before} || fail "$1: no verdict"
  [[ ${NEW##*$'\nverify '} == ok* ]] ||
    fail "$1: $(grep -E '^(verify|damage|stopped)' "$LOG" | tail -n 8)"
}

# ends_well WHAT: SIGTERM, last comparison, exit
ends_well() {
  kill -TERM "$PID" || fail "$1: the process is gone"
  wait_gone "$PID" $STEP_SECONDS || fail "$1: it does not end"
  log_has 'final ok' || fail "$1: $(tail -n 5 "$LOG")"
  ! grep -qE '^[a-z]+ FAILED' "$LOG" || fail "$1: $(grep -E '^(damage|[a-z]+ FAILED)' "$LOG")"
}

# gpu_usage: KFD's counts of the process's queues and VRAM on all GPUs, and the memory of its
# render-node files
gpu_usage() {
  kfd_usage
  render_usage
}

kfd_usage() {
  local proc=/sys/class/kfd/kfd/proc/$PID file bytes=0 queues
  [ -d "$proc" ] || return
  queues=("$proc/queues/"*)
  [ -e "${queues[0]}" ] || queues=()
  for file in "$proc"/vram_*; do
    [ -e "$file" ] && bytes=$((bytes + $(<"$file")))
  done
  printf '%d queues, ' ${#queues[@]}
  mebibytes $bytes
  printf ' MiB VRAM (%d bytes)' $bytes
}

# Each open file counts once, with all its descriptors; KFD's memory in its VM counts, too.
render_usage() {
  cat /proc/"$PID"/fdinfo/* 2>/dev/null | awk '
    /^drm-client-id:/ { known = seen[$2]++ }
    /^drm-resident-(vram|gtt):/ && !known { sum[$1] += $2; files[$1]++ }
    END {
      for (name in sum) text[name] = sum[name] " KiB in " files[name] " files"
      if (length(sum))
        printf " render nodes: VRAM %s, GTT %s", text["drm-resident-vram:"], text["drm-resident-gtt:"]
    }'
}

# uses_gpu WHAT USAGE: two numbers that are not there would be the same before a dump and after a restore.
# 6.12 has another name for the memory of render nodes, which is not compared.
uses_gpu() {
  [ -n "$2" ] || grep -qs '^drm-memory-vram:' "/proc/$PID/fdinfo"/* ||
    fail "$1: neither KFD nor a render node counts anything for process $PID"
}

# same_usage NOW BEFORE: equal except for a few page tables, which count as VRAM of the render node.
# Their number depends on the addresses of memory.
same_usage() {
  local pattern='render nodes: VRAM ([0-9]+) KiB' now=0 before=0
  [[ $1 =~ $pattern ]] && now=${BASH_REMATCH[1]}
  [[ $2 =~ $pattern ]] && before=${BASH_REMATCH[1]}
  [ $((now > before ? now - before : before - now)) -le 32 ] &&
    [ "${1/VRAM $now KiB/}" = "${2/VRAM $before KiB/}" ]
}

describe_workload() {
  local READY text=''
  USAGE=$(gpu_usage)
  read_ready_line
  if [[ $READY =~ " bos "([0-9]+).*" bytes "([0-9]+) ]]; then
    text="${BASH_REMATCH[1]} BOs, $(mebibytes "${BASH_REMATCH[2]}") MiB; "
  fi
  echo "${text}the driver counts $USAGE"
}
