// SPDX-License-Identifier: GPL-2.0
#include "engines/bulk.h"

#include <algorithm>
#include <cstring>

namespace gpu {
namespace {

// pattern, repeated, so that the first byte written is byte `phase` of an element.
void fill_span(std::span<std::byte> span, uint32_t pattern, unsigned element, uint64_t phase) {
  if (element == 1 || pattern == 0) {
    memset(span.data(), static_cast<int>(pattern & 0xff), span.size());
    return;
  }
  if (element == 2) pattern = (pattern & 0xffff) | pattern << 16;
  std::byte unit[4];
  for (unsigned i = 0; i < 4; ++i) unit[i] = std::byte(pattern >> 8 * ((i + phase) % 4));
  uint32_t rotated;
  memcpy(&rotated, unit, sizeof(rotated));
  const uint64_t wide = uint64_t{rotated} << 32 | rotated;
  size_t at = 0;
  for (; at + 8 <= span.size(); at += 8) memcpy(span.data() + at, &wide, 8);
  memcpy(span.data() + at, &wide, span.size() - at);
}

}  // namespace

amdgpu_criu::Result<Step> copy(Memory& memory, Space space, uint64_t source, uint64_t target,
                               uint64_t size, uint64_t& progress, Budget& budget) {
  // The budget bounds how long guest memory is held.
  const Memory::Hold hold = memory.hold();
  while (progress < size) {
    if (budget.bytes == 0) return Step::kMore;
    const uint64_t want = std::min(size - progress, budget.bytes);
    const auto from = TRY(memory.window(space, source + progress, want, false));
    const auto to = TRY(memory.window(space, target + progress, from.size(), true));
    memmove(to.data(), from.data(), to.size());
    progress += to.size();
    budget.use_bytes(to.size());
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> fill(Memory& memory, Space space, uint64_t target, uint64_t size,
                               uint32_t pattern, unsigned element, uint64_t& progress,
                               Budget& budget) {
  // The budget bounds how long guest memory is held.
  const Memory::Hold hold = memory.hold();
  while (progress < size) {
    if (budget.bytes == 0) return Step::kMore;
    const uint64_t want = std::min(size - progress, budget.bytes);
    const auto to = TRY(memory.window(space, target + progress, want, true));
    fill_span(to, pattern, element, progress);
    progress += to.size();
    budget.use_bytes(to.size());
  }
  return Step::kDone;
}

}  // namespace gpu
