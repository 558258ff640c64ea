# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The amdgpu module.

MODULE=$PAYLOAD/module/amdgpu.ko
PARAMETERS=/sys/module/amdgpu/parameters

gpu_ids() { cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -v '^0$'; }
gpu_count() { gpu_ids 2>/dev/null | wc -l; }
gpus_are_back() { [ "$(gpu_count)" -eq "$1" ] && [ -c /dev/kfd ]; }

# read_parameters: sets DRIVER_PARAMETERS to those of the loaded driver that GPU models need
read_parameters() {
  DRIVER_PARAMETERS=("fw_load_type=$(cat $PARAMETERS/fw_load_type)"
    "ip_block_mask=$(cat $PARAMETERS/ip_block_mask)" "pg_mask=$(cat $PARAMETERS/pg_mask)")
}

reload_driver() {
  local count command=(modprobe amdgpu)
  count=$(gpu_count)
  read_parameters
  if [ -s $PARAMETERS/lockup_timeout ]; then
    DRIVER_PARAMETERS+=("lockup_timeout=$(cat $PARAMETERS/lockup_timeout)")
  fi
  [ ! -e "$MODULE" ] || command=(insmod "$MODULE")
  command+=("${DRIVER_PARAMETERS[@]}")
  rmmod amdgpu || fail "rmmod amdgpu"
  "${command[@]}" || fail "${command[*]}"
  wait_until 60 gpus_are_back "$count" || fail "$count GPUs before, $(gpu_count) after the reload"
}
