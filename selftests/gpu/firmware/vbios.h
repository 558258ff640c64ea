// SPDX-License-Identifier: GPL-2.0
// A generated VBIOS: a PCI expansion ROM with the ATOM tables that amdgpu reads.
#pragma once

#include <cstdint>
#include <vector>

#include "asic/asic.h"

namespace gpu {

struct VbiosSpec {
  uint16_t vendor;
  const Asic& asic;
};

inline constexpr uint32_t kReferenceClock10kHz = 10000;  // 100 MHz

std::vector<std::byte> make_vbios(const VbiosSpec& spec);

}  // namespace gpu
