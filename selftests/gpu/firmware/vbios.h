// SPDX-License-Identifier: GPL-2.0
// A generated VBIOS: a PCI expansion ROM with the ATOM tables that amdgpu reads.
#pragma once

#include <cstdint>
#include <vector>

namespace gpu {

struct VbiosSpec {
  uint16_t vendor;
  uint16_t device;
  // Small, because KFD allocates a context save area of about 0.6 MiB a CU for every queue.
  uint8_t shader_engines = 1;
  uint8_t arrays_per_engine = 1;
  uint8_t units_per_array = 8;
};

inline constexpr uint32_t kReferenceClock10kHz = 10000;  // 100 MHz

std::vector<std::byte> make_vbios(const VbiosSpec& spec);

}  // namespace gpu
