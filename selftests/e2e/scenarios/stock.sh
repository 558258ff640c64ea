# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The distribution's driver without our series: dumps by our plugin, and images that CRIU's own
# amdgpu plugin makes there.

STOCK_MODULE=$PAYLOAD/stock/amdgpu.ko
DRIVER_FILE=$SCRATCH/driver

# use_driver ours|stock: loads that driver unless it is loaded. A machine with a GPU says in LOADED_DRIVER
# what it has.
use_driver() {
  local count module=$MODULE depends
  [ "${LOADED_DRIVER:-$(cat "$DRIVER_FILE" 2>/dev/null || echo ours)}" != "$1" ] || return 0
  count=$(gpu_count)
  read_parameters
  # Without our fix, the clear of a page directory that the CPU updates may overwrite later entries.
  [ "$1" = ours ] || { module=$STOCK_MODULE DRIVER_PARAMETERS+=(vm_update_mode=0); }
  rmmod amdgpu || fail "rmmod amdgpu"
  IFS=, read -r -a depends < <(modinfo -F depends "$module")
  modprobe -a "${depends[@]}" || fail "modprobe ${depends[*]} for $module"
  insmod "$module" "${DRIVER_PARAMETERS[@]}" || fail "insmod $module ${DRIVER_PARAMETERS[*]}"
  wait_until 120 gpus_are_back "$count" || fail "$count GPUs before, $(gpu_count) with the $1 driver"
  echo "$1" >"$DRIVER_FILE"
}

need_stock_driver() { # need_stock_driver GPUS
  [ -n "${LOADED_DRIVER-}" ] || [ -e "$STOCK_MODULE" ] ||
    fail "$STOCK_MODULE is missing: 'make lab' makes it"
  need_gpus "$1"
  need_plugin
  use_driver stock
}

scenario_stock_round_trip() {
  need_stock_driver 1
  start gpu_chain --gpus "$(gpu_count)"
  describe_workload
  first_steps $BEFORE_DUMP
  criu_dump running "$DIR/running" --leave-running || fail "criu dump ended with status $?"
  survives "after the dump"
  # With hashes, which the CPU compares when these images are restored.
  AMDGPU_CRIU_INCREMENTAL=on dump_and_kill dump "$DIR/images"
  grep -q 'lacks the amdgpu-criu series' "$DIR/criu-dump.log" || fail "the log does not say what is missing"
  "$TOOL" verify "$DIR/images" || fail "amdgpu-criu verify ended with status $?"
  "$TOOL" show "$DIR/images" >"$DIR/show.log" || fail "amdgpu-criu show ended with status $?"
  grep -q 'stock kernel interface' "$DIR/show.log" || fail "show does not report how it was saved"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# refused_by_name TEXT: a dump fails for that reason, and the process continues
refused_by_name() {
  ! criu_dump "${1%% *}" "$DIR/images-${1%% *}" || fail "dumped, but: $1"
  grep -q "Error.*$1" "$DIR/criu-${1%% *}.log" || fail "not refused by name: $1"
  echo "refused: $(grep -m1 -o "(amdgpu): .*$1.*" "$DIR/criu-${1%% *}.log")"
}

scenario_stock_refused() {
  need_stock_driver 2
  start gpu_chain
  refused_by_name "crashes on a process that does not use all GPUs"
  survives "a GPU that is not used"
  ends_well "a GPU that is not used"
  LOG_NAME=render start render_chain
  refused_by_name "does not carry what was done through it"
  survives "a render node alone"
  ends_well "a render node alone"
}

# foreign_dump VERSION IMAGES: dumps with that CRIU and its own plugin
foreign_dump() {
  CRIU=/opt/criu-$1/criu
  local ours=$PLUGIN_DIR
  PLUGIN_DIR=$PAYLOAD/criu-plugin/$1
  [ -e "$PLUGIN_DIR/amdgpu_plugin.so" ] ||
    skip "the lab has no amdgpu plugin of CRIU $1: its mirror has no source of that version"
  start gpu_chain --gpus 2
  describe_workload
  first_steps $BEFORE_DUMP
  dump_and_kill dump "$2"
  PLUGIN_DIR=$ours
  compgen -G "$2/amdgpu-kfd-*.img" >/dev/null || fail "CRIU's own plugin has written no images"
}

scenario_foreign_criu_4_1_1() {
  need_stock_driver 2
  foreign_dump 4.1.1 "$DIR/images"
  "$TOOL" verify "$DIR/images" || fail "amdgpu-criu verify ended with status $?"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}

# Dumped with the stock driver, restored with ours, which has the stock ioctl too.
scenario_foreign_criu_4_2_1() {
  need_stock_driver 2
  foreign_dump 4.2.1 "$DIR/images"
  use_driver ours
  local -x OLD_KERNEL="this kernel with another driver"
  restore_and_check restore "$DIR/images"
  ends_well "after the restore"
}
