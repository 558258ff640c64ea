// SPDX-License-Identifier: GPL-2.0
#include "engines/xcc_view.h"

#include "asic/asic.h"

namespace gpu {
namespace {

// The windows of GC within an XCC's registers (gfx_v9_4_3_normalize_xcc_reg_offset).
bool is_local(uint32_t dword) {
  return (dword >= 0x2000 && dword < 0x3400) || (dword >= 0xa000 && dword < kInstanceStride);
}

}  // namespace

uint32_t XccRegisters::global(uint32_t dword) const {
  return is_local(dword) ? dword + xcc_ * kInstanceStride : dword;
}

amdgpu_criu::Status XccRegisters::claim(RegisterBlock& block, uint32_t first, uint32_t last) {
  const uint32_t offset = global(first) - first;
  if (!offset) return registers_.claim(block, first, last);
  moved_.push_back(std::make_unique<Moved>(block, offset));
  return registers_.claim(*moved_.back(), first + offset, last + offset);
}

}  // namespace gpu
