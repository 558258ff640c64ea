// SPDX-License-Identifier: GPL-2.0
#include "shader/memory_view.h"

#include <algorithm>

namespace gpu::shader {
namespace {

// Between the lower and the upper half of the 48-bit address space.
bool in_hole(uint64_t address) {
  const auto upper = static_cast<int64_t>(address) >> 47;
  return upper != 0 && upper != -1;
}

}  // namespace

void MemoryView::begin_turn() {
  hold_ = memory_.hold();
  reads_.fill({});
  writes_.fill({});
  codes_.fill({});
}

void MemoryView::end_turn() {
  reads_.fill({});
  writes_.fill({});
  codes_.fill({});
  hold_ = {};
}

std::byte* MemoryView::miss(Entry& entry, uint64_t address, Access access) {
  const uint64_t start = address / kPageSize * kPageSize;
  violation_ = in_hole(address);
  if (violation_) {
    error_ = amdgpu_criu::Error::of(EFAULT, "{:#x} is in no aperture", address);
    return nullptr;
  }
  auto window = access == Access::kExecute
                    ? memory_.code(space_, start, kPageSize)
                    : memory_.window(space_, start, kPageSize, access == Access::kWrite);
  if (!window.ok()) {
    error_ = window.error();
    return nullptr;
  }
  if (window->size() < kPageSize) {
    error_ = amdgpu_criu::Error::of(EFAULT, "the page at {:#x} is not whole", start);
    return nullptr;
  }
  entry = {.tag = address / kPageSize, .host = window->data()};
  return entry.host + address % kPageSize;
}

bool MemoryView::read(uint64_t address, void* out, size_t size) {
  auto* to = static_cast<std::byte*>(out);
  while (size) {
    const std::byte* from = page(address, false);
    if (!from) return false;
    const size_t count = std::min<size_t>(size, kPageSize - address % kPageSize);
    std::memcpy(to, from, count);
    to += count;
    address += count;
    size -= count;
  }
  return true;
}

bool MemoryView::write(uint64_t address, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  while (size) {
    std::byte* to = page(address, true);
    if (!to) return false;
    const size_t count = std::min<size_t>(size, kPageSize - address % kPageSize);
    std::memcpy(to, from, count);
    from += count;
    address += count;
    size -= count;
  }
  return true;
}

std::byte* MemoryView::cell(uint64_t address, size_t size) {
  if (address % size) {
    violation_ = true;
    error_ = amdgpu_criu::Error::of(EFAULT, "an atomic operation at {:#x} is not aligned", address);
    return nullptr;
  }
  return page(address, true);
}

}  // namespace gpu::shader
