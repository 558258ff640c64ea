# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The base of every scenario: its directory, its end, and functions that report failures.

PAYLOAD=${PAYLOAD:-/payload}
SCRATCH=${SCRATCH:-/scratch}
CRIU=${CRIU:-criu}
PATIENCE=${PATIENCE:-1} # multiplies time limits
EVERY=${EVERY:-0}      # 1: whole campaigns, not samples
SKIP=4

# DIR holds logs and images of this scenario; KEPT holds files for another boot.
prepare() {
  DIR=$SCRATCH/e2e/$NAME
  KEPT=${KEPT:-$SCRATCH/kept}
  if [ -e "$DIR" ]; then
    clean_mounts
    rm -rf "$DIR"
  fi
  mkdir -p "$DIR" "$KEPT"
  mkfifo "$DIR/never"
  PIDS=()
}

# REASON: the file where the runner of the scenarios looks for it.
skip() {
  echo "$*" >"${REASON:-/dev/stdout}"
  exit $SKIP
}

fail() {
  local why=$*
  case $why in *"criu "*" ended with status "*) why+=${CRIU_ERROR:+: $CRIU_ERROR} ;; esac
  echo "FAILED: $why"
  [ -z "${REASON-}" ] || echo "$why" >"$REASON"
  show_logs
  exit 1
}

show_logs() {
  local log
  for log in "$DIR"/*.log; do
    [ -s "$log" ] || continue
    echo "--- end of ${log##*/}"
    case $log in
      */criu-*) grep -E 'Error|Warn|\(amdgpu\)' "$log" | tail -n 25 ;;
      *) tail -n 12 "$log" ;;
    esac
  done
  echo "--- the kernel on checkpoint and restore"
  dmesg | grep -E 'criu: |kfd: |amdgpu.*(fault|timeout|reset)' | tail -n 8
}

# Complaints of kernel and software GPU fail the run in the guest, except those that match this
# pattern, until the scenario ends or calls disallow_complaints.
disallow_complaints() { echo "vm: disallow" >/dev/kmsg; }
allow_complaint() { echo "vm: allow $1" >/dev/kmsg; }

clean_mounts() {
  local mount
  for mount in "$DIR"/*/; do
    [[ $(</proc/mounts) == *" ${mount%/} "* ]] && umount "$mount"
  done
  return 0
}

# Functions that clean_up calls first. A file that defines scenarios adds its own.
CLEANERS=(remove_containers)

# With SHOW_IMAGES=1, keeps a description of images that are removed, without contents of memory.
show_images() {
  local directory
  for directory in "$DIR"/*/; do
    compgen -G "$directory/amdgpu-*.img" >/dev/null || continue
    directory=${directory%/}
    timeout 60 amdgpu-criu show --json "$directory" >"$DIR/show-${directory##*/}.json" 2>&1
  done
}

# Removes images, which are large, and keeps logs.
clean_up() {
  local status=$? pid cleaner
  trap - EXIT TERM
  for cleaner in "${CLEANERS[@]}"; do
    "$cleaner"
  done
  for pid in "${PIDS[@]}"; do
    alive "$pid" && kill -KILL "$pid"
  done
  for pid in "${PIDS[@]}"; do
    [ -z "$pid" ] || wait_gone "$pid" 10 || echo "process $pid does not end"
  done
  [ "${SHOW_IMAGES:-0}" = 0 ] || show_images
  clean_mounts
  find "$DIR" -name '*.img' -delete
  exit $status
}

now() { echo "${EPOCHREALTIME/./}"; } # microseconds

mount_debugfs() { mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug; }

seconds_since() { # seconds_since MICROSECONDS: with two decimals
  local us=$(($(now) - $1))
  printf '%d.%02d' $((us / 1000000)) $((us % 1000000 / 10000))
}

# number_of_seed COUNT [OF]: a number below COUNT, by SEED and the name of this scenario. SEED alone, or with the name of
# a group, has chosen the scenario: a remainder of it would always be the same one here.
number_of_seed() {
  local sum
  sum=$(cksum <<<"$SEED $NAME ${2-}")
  echo $((${sum%% *} / 8 % $1))
}

mebibytes() { printf %d $((($1 + 524288) / 1048576)); }

# wait_until SECONDS COMMAND...: waits until COMMAND succeeds
wait_until() {
  local deadline=$((${EPOCHREALTIME/./} + $1 * PATIENCE * 1000000))
  shift
  until "$@"; do
    [ ${EPOCHREALTIME/./} -lt $deadline ] || return 1
    # A sleep that starts no program: nothing is ever written to this FIFO.
    read -rt 0.1 <>"$DIR/never" || true
  done
}
