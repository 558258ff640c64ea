# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of Debian's RADV, in the guest image that scripts/vulkan makes.

scenario_vulkan() {
  need_gpus 1
  round_trip "$PAYLOAD/vulkan/bin/vulkan_chain"
}
