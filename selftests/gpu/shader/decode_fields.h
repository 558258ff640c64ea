// SPDX-License-Identifier: GPL-2.0
// Fields of instructions, for the decoders.
#pragma once

#include "engines/packets.h"
#include "shader/instruction.h"

namespace gpu::shader {

constexpr uint16_t field(uint32_t word, unsigned high, unsigned low) {
  return static_cast<uint16_t>(bits(word, high, low));
}
constexpr int32_t sign_extend(uint32_t value, unsigned width) {
  return static_cast<int32_t>(value << (32 - width)) >> (32 - width);
}
constexpr uint16_t vgpr(uint32_t number, bool accumulation = false) {
  return static_cast<uint16_t>(number + (accumulation ? operand::kAccVgpr : operand::kVgpr));
}

}  // namespace gpu::shader
