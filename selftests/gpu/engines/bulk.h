// SPDX-License-Identifier: GPL-2.0
// Copies and fills in GPU memory, over the contiguous ranges that translation yields.
#pragma once

#include <cstdint>

#include "core/interfaces.h"
#include "engines/context.h"

namespace gpu {

// Each continues from progress as far as the budget allows, and advances progress; kDone at size.
// Copies run upwards, so an overlap copies what was already copied, as the hardware does.
amdgpu_criu::Result<Step> copy(Memory& memory, Space space, uint64_t source, uint64_t target,
                               uint64_t size, uint64_t& progress, Budget& budget);

// The pattern has element bytes (1, 2, 4) and starts at target.
amdgpu_criu::Result<Step> fill(Memory& memory, Space space, uint64_t target, uint64_t size,
                               uint32_t pattern, unsigned element, uint64_t& progress,
                               Budget& budget);

}  // namespace gpu
