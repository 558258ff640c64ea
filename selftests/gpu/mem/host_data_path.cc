// SPDX-License-Identifier: GPL-2.0
#include "mem/host_data_path.h"

#include <cstring>

namespace gpu {

void HostDataPath::write(uint64_t offset, std::span<const std::byte> data) {
  if (!holds_) {
    memcpy(vram_.data() + offset, data.data(), data.size());
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const std::byte byte : data) {
    Page& page = held_[offset / kPage];
    page.bytes[offset % kPage] = byte;
    page.written.set(offset % kPage);
    ++offset;
  }
}

// The CPU reads what it has written.
void HostDataPath::read(uint64_t offset, std::span<std::byte> out) {
  memcpy(out.data(), vram_.data() + offset, out.size());
  if (!holds_) return;
  const std::lock_guard lock(mutex_);
  if (held_.empty()) return;
  for (std::byte& byte : out) {
    const auto page = held_.find(offset / kPage);
    if (page != held_.end() && page->second.written[offset % kPage])
      byte = page->second.bytes[offset % kPage];
    ++offset;
  }
}

// Bytes that were not written may be changed by an engine meanwhile.
void HostDataPath::flush() {
  if (!holds_) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, page] : held_) {
    std::byte* const to = vram_.data() + number * kPage;
    for (uint64_t i = 0; i < kPage; ++i)
      if (page.written[i]) to[i] = page.bytes[i];
  }
  held_.clear();
}

}  // namespace gpu
