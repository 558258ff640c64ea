// SPDX-License-Identifier: GPL-2.0
// VRAM of our own, to measure with.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::gpu {

// As a dma-buf, which keeps it until it is closed.
Result<Fd> allocate_vram(const Fd& render_node, uint64_t bytes);

}  // namespace amdgpu_criu::gpu
