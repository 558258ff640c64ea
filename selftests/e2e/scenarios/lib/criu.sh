# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# CRIU's command line. Its logs are DIR/criu-WHAT.log.

PLUGIN_DIR=$PAYLOAD/plugin
# Longer than any of them takes. CRIU waits for some events without a limit.
CRIU_SECONDS=200

need_plugin() {
  compgen -G "$PLUGIN_DIR/*.so" >/dev/null || fail "there is no plugin in $PLUGIN_DIR"
  command -v "$CRIU" >/dev/null || fail "there is no $CRIU"
}

# run_criu COMMAND OPTIONS...: with our plugins; DEFAULT_LIBDIR=yes: with those in CRIU's own
# directory. Status 124: it did not end.
run_criu() {
  local libdir=(-L "$PLUGIN_DIR")
  [ -z "${DEFAULT_LIBDIR-}" ] || libdir=()
  timeout --foreground $((CRIU_SECONDS * PATIENCE)) "$CRIU" "$@" "${libdir[@]}"
}

# set_criu_error STATUS WHAT: CRIU_ERROR, which fail() adds: the first error of a log; empty after success
set_criu_error() {
  CRIU_ERROR=
  [ "$1" = 0 ] || CRIU_ERROR=$(grep -m 1 -o 'Error (.*' "$DIR/criu-$2.log")
}

# criu_dump WHAT IMAGES OPTIONS...: sets DUMP_SECONDS
criu_dump() {
  local what=$1 images=$2 start=${EPOCHREALTIME/./} status
  shift 2
  mkdir -p "$images"
  run_criu dump -t "$PID" -D "$images" -W "$DIR" -o "criu-$what.log" -v4 --shell-job "$@"
  status=$?
  DUMP_SECONDS=$(seconds_since "$start")
  set_criu_error $status "$what"
  return $status
}

# criu_restore WHAT IMAGES OPTIONS...: detached; sets RESTORE_SECONDS
criu_restore() {
  local what=$1 images=$2 start=${EPOCHREALTIME/./} status
  shift 2
  # The pid that the process had must be free, so new processes of ours get much lower numbers.
  echo 1000 >/proc/sys/kernel/ns_last_pid
  run_criu restore -d -D "$images" -W "$DIR" -o "criu-$what.log" -v4 --shell-job "$@" </dev/null
  status=$?
  RESTORE_SECONDS=$(seconds_since "$start")
  set_criu_error $status "$what"
  return $status
}

image_mebibytes() {
  local bytes
  bytes=$(du -sb "$1")
  mebibytes "${bytes%%[!0-9]*}"
}

# dump_and_kill WHAT IMAGES OPTIONS...: sets STEP_BEFORE
dump_and_kill() {
  USAGE=$(gpu_usage)
  uses_gpu "$1" "$USAGE"
  criu_dump "$@" || fail "$1: criu dump ended with status $?"
  gone "$PID" || fail "$1: the dumped process is still there"
  STEP_BEFORE=$(last_step)
  echo "$1 $DUMP_SECONDS s, images $(image_mebibytes "$2") MiB, step $STEP_BEFORE"
}

# The GPU map that the plugin logs.
gpu_map() { # gpu_map WHAT
  sed -n 's/.*(amdgpu): GPU \([^ ]*\) of the images is restored on GPU/\1 ->/p' \
    "$DIR/criu-$1.log" | paste -sd, -
}

# swap_gpus: the images of one GPU are restored on the other one
swap_gpus() {
  local -a ids
  mapfile -t ids < <(gpu_ids)
  export AMDGPU_CRIU_IGNORE=vram_size
  export AMDGPU_CRIU_MAP="${ids[0]}=${ids[1]},${ids[1]}=${ids[0]}"
}

# restore_and_check WHAT IMAGES: checks that it continues at its pid from STEP_BEFORE, and all its memory
restore_and_check() {
  criu_restore "$1" "$2" || fail "$1: criu restore ended with status $?"
  PIDS+=("$PID")  # not before: until now the number may have been another process's
  alive "$PID" || fail "$1: there is no process $PID after the restore"
  goes_on "$STEP_BEFORE" "$1"
  all_memory_is_right "$1"
  local now was=$USAGE
  now=$(gpu_usage)
  # Another kernel or driver counts the memory of render nodes, including page tables, differently
  # or not at all.
  if [ "${OLD_KERNEL-$(uname -r)}" != "$(uname -r)" ]; then
    now=${now%% render nodes*} was=${was%% render nodes*}
  fi
  same_usage "$now" "$was" || fail "$1: KFD counts $now, before the dump $was"
  echo "$1 $RESTORE_SECONDS s, step $STEP_BEFORE -> $(last_step), all memory right"
}

# Checks that a failed restore leaves nothing.
nothing_runs() {
  gone "$PID" || fail "$1: process $PID runs after a failed restore"
  local left
  left=$(gpu_holders)
  [ -z "$left" ] || fail "$1: GPU files are still open in: $left"
}

gpu_holders() {
  local fd pid
  for fd in /proc/[0-9]*/fd/*; do
    case $(readlink "$fd" 2>/dev/null) in
      /dev/kfd | /dev/dri/*)
        pid=${fd#/proc/}
        echo "${pid%%/*}"
        ;;
    esac
  done | sort -u | tr '\n' ' '
}
