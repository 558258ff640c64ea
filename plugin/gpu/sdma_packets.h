// SPDX-License-Identifier: GPL-2.0
// SDMA packets, as in the amdgpu driver's sdma*_pkt_open.h: linear copy has operation 1,
// sub-operation 0, then a byte count, a swap word, source and destination; seven dwords.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpu {

// The count field is 22 bits wide in the oldest generations.
inline constexpr uint32_t kCopyPacketBytes = 2u << 20;
inline constexpr uint32_t kCopyPacketDwords = 7;
// Command buffers are fetched in units of eight dwords.
inline constexpr uint32_t kIbAlignDwords = 8;

// Dwords of a command buffer that copies so many bytes.
constexpr uint32_t copy_ib_dwords(uint64_t bytes) {
  const uint64_t packets = (bytes + kCopyPacketBytes - 1) / kCopyPacketBytes;
  const uint64_t dwords = packets * kCopyPacketDwords;
  return (dwords + kIbAlignDwords - 1) / kIbAlignDwords * kIbAlignDwords;
}

// Writes copy packets and NOPs up to the alignment; returns the dwords written. The count field
// is one less than the bytes from gfx9 on.
inline uint32_t build_copy_ib(std::span<uint32_t> ib, uint64_t from, uint64_t to, uint64_t bytes,
                              bool count_is_minus_one) {
  uint32_t at = 0;
  while (bytes > 0) {
    const uint32_t part = bytes < kCopyPacketBytes ? bytes : kCopyPacketBytes;
    ib[at++] = 1;
    ib[at++] = part - (count_is_minus_one ? 1 : 0);
    ib[at++] = 0;
    ib[at++] = from;
    ib[at++] = from >> 32;
    ib[at++] = to;
    ib[at++] = to >> 32;
    from += part;
    to += part;
    bytes -= part;
  }
  while (at % kIbAlignDwords) ib[at++] = 0;
  return at;
}

}  // namespace gpu
