// SPDX-License-Identifier: GPL-2.0
// What s_getreg_b32 and s_setreg_b32 of all ISAs have in common.
#pragma once

#include "shader/vector_op.h"

namespace gpu::shader {

// Bits of a hardware register, as the operand names them: id [5:0], offset [10:6], size - 1
// [15:11].
struct Field {
  unsigned id, offset;
  uint32_t mask;

  explicit Field(const Instruction& in)
      : id(bits(static_cast<uint32_t>(in.immediate), 5, 0)),
        offset(bits(static_cast<uint32_t>(in.immediate), 10, 6)),
        mask(0xffffffffu >> (31 - bits(static_cast<uint32_t>(in.immediate), 15, 11))) {}

  uint32_t of(uint32_t word) const { return word >> offset & mask; }
  uint32_t merged(uint32_t word, uint32_t value) const {
    return (word & ~(mask << offset)) | (value << offset & mask << offset);
  }
};

inline void set_status_word(Wave& wave, uint32_t word) {
  wave.status = word & ~status::kDerived;
  wave.scc = word & status::kScc;
}

}  // namespace gpu::shader
