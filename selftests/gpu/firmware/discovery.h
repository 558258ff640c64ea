// SPDX-License-Identifier: GPL-2.0
// The IP discovery binary, which the driver finds near the end of VRAM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "asic/asic.h"

namespace gpu {

inline constexpr size_t kDiscoveryBytes = 10240;         // what the driver reads
inline constexpr uint64_t kDiscoveryFromEnd = 64 << 10;  // DISCOVERY_TMR_OFFSET

std::vector<std::byte> make_discovery(const Asic& asic);

}  // namespace gpu
