// SPDX-License-Identifier: GPL-2.0
// Chooses, for every GPU of the images, a GPU of this machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "base/result.h"
#include "topology/fit.h"
#include "topology/wishes.h"

namespace amdgpu_criu::topology {

// Source gpu_id to target gpu_id.
using Assignment = std::map<uint32_t, uint32_t>;

// VRAM, by gpu_id.
struct Room {
  std::map<uint32_t, uint64_t> needed;  // of sources
  std::map<uint32_t, uint64_t> free;    // of targets; none: not reported
  // Of targets: less than `free` by what the kernel would move away, such as memory of render
  // nodes.
  std::map<uint32_t, uint64_t> unused;
  // The target with the largest part unused comes first, and the source that needs most memory
  // chooses first.
  bool spread = false;
};

// A pure function. GPUs of one XGMI hive, or of one NUMA node, stay in one, and GPUs that had a
// link have one. Sources prefer targets whose shader arrays have the same numbers of CUs, then the
// one with their own gpu_id, then their PCI address. Spare
// targets are left alone, and no source is put where it has no room. An error names the GPU, the
// property, both values, and the option that would allow it.
//
// unused: gpu_ids of sources that no process uses. They get what the others leave, or no target:
// the result lacks them then. One that a wish names is placed like the others.
Result<Assignment> plan(std::span<const Gpu> sources, std::span<const Gpu> targets,
                        std::span<const Wish> wishes = {}, const Ignored& ignored = {},
                        const Room& room = {}, const std::set<uint32_t>& unused = {});

}  // namespace amdgpu_criu::topology
