// SPDX-License-Identifier: GPL-2.0
// The instruction sets that the shader cores execute.
#pragma once

#include <cstdint>

namespace gpu::shader {

enum class Isa : uint8_t { kGfx90a, kGfx942, kGfx1100 };

constexpr bool is_gfx11(Isa isa) { return isa == Isa::kGfx1100; }

// SPI gives a wave its scratch in FLAT_SCRATCH, and always its place in the dispatch in TTMPs.
constexpr bool has_architected_scratch(Isa isa) { return isa != Isa::kGfx90a; }

}  // namespace gpu::shader
