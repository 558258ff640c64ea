// SPDX-License-Identifier: GPL-2.0
// The place of a lane's memory operand: memory, LDS, or private memory with its swizzled layout.
#pragma once

#include "shader/vector_op.h"

namespace gpu::shader {

struct Place {
  enum class In : uint8_t { kMemory, kLds, kSwizzled, kNowhere };
  In in = In::kMemory;
  uint64_t address = 0;  // in LDS: offset; swizzled: base
  uint64_t offset = 0;   // swizzled: of the lane
  unsigned lane = 0;
};

// For a FLAT, SCRATCH, GLOBAL, MUBUF or DS instruction; extra is added to the offset.
Place locate(Wave& wave, const Instruction& in, unsigned lane, uint32_t extra = 0);

// False: the access faulted, and the wave stops. Nowhere reads as zero and drops writes, as do
// LDS addresses beyond the allocation.
bool read_place(Wave& wave, const Place& place, void* out, size_t size);
bool write_place(Wave& wave, const Place& place, const void* data, size_t size);
// The host's memory for an atomic operation. Null while the wave still runs: the operand is
// nowhere.
std::byte* atomic_place(Wave& wave, const Place& place, size_t size);

// Calls visit(lane) for active lanes, as long as the wave runs.
template <typename Visit>
void for_each_active(Wave& wave, Visit visit) {
  for (uint64_t left = wave.exec(); left && wave.stop == Stop::kNone; left &= left - 1) {
    visit(static_cast<unsigned>(std::countr_zero(left)));
  }
}

}  // namespace gpu::shader
