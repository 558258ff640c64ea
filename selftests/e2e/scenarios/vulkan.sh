# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of Debian's RADV, in the guest image that scripts/vulkan makes.

# Mesa recognizes the GPU by what the driver reports.
scenario_vulkaninfo() {
  need_gpus 1
  vulkaninfo --summary >"$DIR/vulkaninfo.log" 2>&1 || fail "vulkaninfo ended with status $?"
  grep 'deviceName .*RADV NAVI31' "$DIR/vulkaninfo.log" || fail "it does not find the GPU"
}

scenario_vulkan() {
  need_gpus 1
  round_trip "$PAYLOAD/vulkan/bin/vulkan_chain"
}

# Kernels of RADV run on the compute queue when the dump begins. Their waves cannot be saved: the dump waits
# for their fences.
scenario_vulkan_compute() {
  need_gpus 1
  round_trip "$PAYLOAD/vulkan/bin/vulkan_compute"
}
