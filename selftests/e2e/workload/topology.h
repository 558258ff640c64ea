// SPDX-License-Identifier: GPL-2.0
// The GPUs of this machine, from /sys/class/kfd.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace e2e {

// A GPU of the topology in sysfs.
struct GpuNode {
  uint32_t gpu_id = 0;
  unsigned render_minor = 0;
  uint64_t hive_id = 0;    // 0: no link to another GPU
  uint64_t num_xcc = 1;    // a compute queue is on all of them
  uint64_t cwsr_size = 0;  // of each, as the following ones
  uint64_t ctl_stack_size = 0;
  uint64_t debug_memory_size = 0;

  // The exact size that KFD requires of a queue's context save area (kfd_queue.c, 7.3).
  uint64_t cwsr_area() const {
    return ((cwsr_size + debug_memory_size) * num_xcc + 4095) & ~4095ull;
  }
};

// The GPUs of this machine, in the order of their topology nodes. None is not an error.
amdgpu_criu::Result<std::vector<GpuNode>> list_gpus();

}  // namespace e2e
