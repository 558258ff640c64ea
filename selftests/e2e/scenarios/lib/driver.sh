# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The amdgpu module.

MODULE=$PAYLOAD/module/amdgpu.ko
PARAMETERS=/sys/module/amdgpu/parameters

gpu_ids() { cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -v '^0$'; }
gpu_count() { gpu_ids 2>/dev/null | wc -l; }
gpus_are_back() { [ "$(gpu_count)" -eq "$1" ] && [ -c /dev/kfd ]; }

# read_parameters: sets DRIVER_PARAMETERS to those of the loaded driver that GPU models and tests need
read_parameters() {
  local name value
  DRIVER_PARAMETERS=()
  for name in fw_load_type ip_block_mask pg_mask dpm ras_enable user_queue lockup_timeout; do
    # Some drivers lack some parameters.
    value=$(cat $PARAMETERS/$name 2>/dev/null)
    [ -z "$value" ] || DRIVER_PARAMETERS+=("$name=$value")
  done
}

# reload_driver NAME=VALUE...: with these parameters
reload_driver() {
  local count command=(modprobe amdgpu)
  count=$(gpu_count)
  read_parameters
  [ ! -e "$MODULE" ] || command=(insmod "$MODULE")
  command+=("${DRIVER_PARAMETERS[@]}" "$@")
  rmmod amdgpu || fail "rmmod amdgpu"
  "${command[@]}" || fail "${command[*]}"
  wait_until 60 gpus_are_back "$count" || fail "$count GPUs before, $(gpu_count) after the reload"
}
