# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What every scenario has: a directory, an end, and ways to say what is wrong.

PAYLOAD=${PAYLOAD:-/payload}
SCRATCH=${SCRATCH:-/scratch}
CRIU=${CRIU:-criu}
PATIENCE=${PATIENCE:-1} # multiplies time limits
EVERY=${EVERY:-0}      # 1: whole campaigns, not samples
SKIP=4

# DIR holds logs and images of this scenario; what crosses a boot is in KEPT.
prepare() {
  DIR=$SCRATCH/e2e/$NAME
  KEPT=$SCRATCH/kept
  clean_mounts
  rm -rf "$DIR"
  mkdir -p "$DIR" "$KEPT"
  PIDS=()
}

skip_reason_file() { echo "$SCRATCH/e2e/$1.skip"; }

skip() {
  echo "$*" >"$(skip_reason_file "$NAME")"
  exit $SKIP
}

fail() {
  echo "FAILED: $*"
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

# The guest's runner takes complaints of kernel and software GPU for failures, but for these.
allow_complaint() { echo "vm: allow $1" >/dev/kmsg; }

clean_mounts() {
  local mount
  for mount in "$DIR"/*/; do
    mountpoint -q "$mount" && umount "$mount"
  done
  return 0
}

# Images are large; logs are kept for a person.
clean_up() {
  local status=$? pid
  trap - EXIT TERM
  remove_containers
  remove_packages
  for pid in "${PIDS[@]}"; do
    alive "$pid" && kill -KILL "$pid"
  done
  for pid in "${PIDS[@]}"; do
    wait_gone "$pid" 10 || echo "process $pid does not go away"
  done
  clean_mounts
  find "$DIR" -name '*.img' -delete
  exit $status
}

limit_of() {
  local seconds=300
  case $1 in
    flipped_byte | render_many | tool_bench) seconds=600 ;;
    faults_*) seconds=$((EVERY ? 7200 : 900)) ;;
    contents_damaged) seconds=$((EVERY ? 36000 : 600)) ;;
    soak) seconds=$((240 + ${ROUNDS:-2} * 90)) ;;
  esac
  echo $((seconds * PATIENCE))
}

# In the order in which a person wants to read of them.
SINGLE_BOOT=(workload_alone early_dump one_gpu leave_running leave_stopped pre_dump three_rounds
  two_gpus rocr criu_4_1_1
  criu_4_3 no_plugin contents_skipped flipped_byte disk_full dump_killed stock_ioctl tool_check
  tool_images tool_bench late_restore reloaded_driver)
# `run @render`, `run @trees` and `run @containers` run these.
RENDER=(render_alone render_one_gpu render_two_gpus render_criu_4_1_1 render_criu_4_3
  render_leave_running render_three_rounds render_many render_vmm render_fork render_unrelated
  render_family render_family_criu_4_1_1 render_family_criu_4_3 render_refused render_let_go
  render_in_flight render_busy render_killed)
TREES=(tree_of_two tree_two_gpus tree_criu_4_1_1 tree_criu_4_3 tree_leave_running tree_disk_full
  soak)
CONTAINERS=(container_runc container_criu_4_1_1 container_criu_4_3 container_podman container_moved_runc)
# `run packages`, with what `make deb` has built.
PACKAGED=(packages)
# `run @parallel` and `run @faults`
PARALLEL=(parallel parallel_criu_4_3 parallel_criu_4_1_1 parallel_off parallel_namespaces)
FAULTS=(faults_dump faults_dump_criu_4_3 faults_restore faults_restore_criu_4_1_1
  faults_restore_criu_4_3)
# By name: it wants other hardware.
SINGLE_GPU=(faults_reset)
# `run @stock` runs these; the last one ends with our driver.
STOCK=(stock_round_trip stock_refused foreign_criu_4_1_1 foreign_criu_4_2_1)
# `run @contents` runs these.
CONTENTS=(contents_bounded contents_elsewhere contents_compressed contents_incremental
  contents_disk_fails contents_damaged)
# Each is one half of a scenario over two boots, and is run by name.
TWO_BOOTS=(fresh_driver_dump fresh_driver swapped_gpus_dump swapped_gpus swapped_nodes_dump
  swapped_nodes container_swapped_dump container_swapped)

now() { echo "${EPOCHREALTIME/./}"; } # microseconds

seconds_since() { # seconds_since MICROSECONDS: with two decimals
  local us=$(($(now) - $1))
  printf '%d.%02d' $((us / 1000000)) $((us % 1000000 / 10000))
}

mebibytes() { echo $((($1 + 524288) / 1048576)); }

# wait_until SECONDS COMMAND...: until it is true
wait_until() {
  local deadline=$(($(now) + $1 * PATIENCE * 1000000))
  shift
  until "$@"; do
    [ "$(now)" -lt $deadline ] || return 1
    sleep 0.05
  done
}
