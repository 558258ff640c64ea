// SPDX-License-Identifier: GPL-2.0
// The GPUs of this machine, as KFD's topology in sysfs describes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::topology {

// Equal if the shader arrays of two GPUs have the same numbers of CUs.
inline constexpr char kCuLayout[] = "cu_layout";

struct Gpu {
  uint32_t gpu_id = 0;
  uint32_t render_minor = 0;
  std::string pci_address;  // "0000:03:00.0"
  uint64_t unique_id = 0;
  // By KFD's names: "simd_count", ...; and vram_size, numa_node (KFD's number of its CPU node) and
  // kCuLayout, which KFD reports outside of its properties.
  std::map<std::string, uint64_t> properties;
  // GPUs that it has a direct link to (XGMI or PCIe), by gpu_id, with KFD's type of the link.
  std::map<uint32_t, uint64_t> links;

  // 0 for a property that this kernel does not have.
  uint64_t property(const std::string& name) const;
  // "GPU 0x1234 (0000:03:00.0, renderD128)"
  std::string describe() const;
};

// nodes: normally kNodes. A directory that does not exist is a machine without GPUs.
inline constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes";
Result<std::vector<Gpu>> read_gpus(const std::string& nodes = kNodes);

}  // namespace amdgpu_criu::topology
