// SPDX-License-Identifier: GPL-2.0
// The instruction sets that the shader cores execute.
#pragma once

#include <cstdint>

namespace gpu::shader {

enum class Isa : uint8_t { kGfx90a, kGfx942 };

// SPI gives a wave its scratch in FLAT_SCRATCH, and always its place in the dispatch in TTMPs.
constexpr bool has_architected_scratch(Isa isa) { return isa == Isa::kGfx942; }

}  // namespace gpu::shader
