// SPDX-License-Identifier: GPL-2.0
// Buffer resources (V#).
#pragma once

#include "shader/access.h"

namespace gpu::shader {

// As SQ_BUF_RSRC_WORD0..3 have it. Addresses have 48 bits, the highest of which is their sign.
struct Resource {
  uint64_t base;
  uint32_t stride, records;
  bool swizzle, add_tid;
  unsigned index_stride;

  Resource(const Wave& wave, unsigned sgpr)
      : base(canonical(wave.s64(sgpr))),
        stride(bits(wave.s(sgpr + 1), 29, 16)),
        records(wave.s(sgpr + 2)),
        swizzle(bits(wave.s(sgpr + 1), 31, 31)),
        add_tid(bits(wave.s(sgpr + 3), 23, 23)),
        index_stride(8u << bits(wave.s(sgpr + 3), 22, 21)) {}
};

inline uint64_t bytes_behind(uint64_t size, uint64_t offset) {
  return offset < size ? size - offset : 0;
}
// As memory_addresses(), of a buffer of bytes: base is the address of offset 0, and the operand of
// an active lane is in the buffer if its offset is below end.
bool offset_addresses(Wave& wave, const Instruction& in, uint64_t base, uint64_t end,
                      std::array<uint64_t, kLanes>& out);
// The most bytes of an operand.
constexpr uint64_t kLargestOperand = 16;

Place gfx11_buffer(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra);
// As memory_addresses(), of a buffer of bytes in which the operands of all lanes are.
bool gfx11_buffer_addresses(Wave& wave, const Instruction& in, std::array<uint64_t, kLanes>& out);

}  // namespace gpu::shader
