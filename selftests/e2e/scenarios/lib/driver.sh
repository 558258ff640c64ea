# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The amdgpu module.

MODULE=$PAYLOAD/module/amdgpu.ko
PARAMETERS=/sys/module/amdgpu/parameters

gpu_ids() { cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -v '^0$'; }
gpu_count() { gpu_ids 2>/dev/null | wc -l; }
gpus_are_back() { [ "$(gpu_count)" -eq "$1" ] && [ -c /dev/kfd ]; }

reload_driver() {
  local count parameters
  count=$(gpu_count)
  parameters="fw_load_type=$(cat $PARAMETERS/fw_load_type) ip_block_mask=$(cat $PARAMETERS/ip_block_mask)"
  if [ -s $PARAMETERS/lockup_timeout ]; then
    parameters+=" lockup_timeout=$(cat $PARAMETERS/lockup_timeout)"
  fi
  rmmod amdgpu || fail "rmmod amdgpu"
  if [ -e "$MODULE" ]; then
    # shellcheck disable=SC2086  # two words
    insmod "$MODULE" $parameters || fail "insmod $MODULE $parameters"
  else
    # shellcheck disable=SC2086
    modprobe amdgpu $parameters || fail "modprobe amdgpu $parameters"
  fi
  wait_until 60 gpus_are_back "$count" || fail "$count GPUs before, $(gpu_count) after the reload"
}
