// SPDX-License-Identifier: GPL-2.0
// SDMA packets, as in the amdgpu driver's sdma*_pkt_open.h. Linear copy: operation 1, sub-operation
// 0, then a byte count, a swap word, source and destination; seven dwords. Constant fill: operation
// 11, then destination, value and byte count; five.
#pragma once

#include <cstdint>
#include <span>

namespace amdgpu_criu::gpu {

// The count field is 22 bits wide in the oldest generations.
inline constexpr uint32_t kPacketBytes = 2u << 20;
inline constexpr uint32_t kCopyPacketDwords = 7;
inline constexpr uint32_t kFillPacketDwords = 5;
// Command buffers are fetched in units of eight dwords.
inline constexpr uint32_t kIbAlignDwords = 8;
// The limit for one submission.
inline constexpr uint32_t kMaxPackets = 4096;
inline constexpr uint32_t kIbDwords = kMaxPackets * kCopyPacketDwords;
static_assert(kIbDwords % kIbAlignDwords == 0);

constexpr uint64_t packets_for(uint64_t bytes) { return (bytes + kPacketBytes - 1) / kPacketBytes; }

// Writes packets into a command buffer that has room for kMaxPackets.
class IbBuilder {
 public:
  // The count fields are one less than the bytes from gfx9 on.
  IbBuilder(std::span<uint32_t> ib, bool count_is_minus_one)
      : ib_(ib), less_(count_is_minus_one ? 1 : 0) {}

  void copy(uint64_t from, uint64_t to, uint64_t bytes) {
    for (uint32_t part; bytes > 0; bytes -= part, from += part, to += part) {
      part = part_of(bytes);
      put(1);
      put(part - less_);
      put(0);
      put_address(from);
      put_address(to);
    }
  }
  void fill_with_zeros(uint64_t to, uint64_t bytes) {
    for (uint32_t part; bytes > 0; bytes -= part, to += part) {
      part = part_of(bytes);
      put(11);
      put_address(to);
      put(0);
      put(part - less_);
    }
  }
  // Pads with NOPs; returns all dwords written.
  uint32_t finish() {
    while (at_ % kIbAlignDwords) put(0);
    return at_;
  }

 private:
  static uint32_t part_of(uint64_t bytes) { return bytes < kPacketBytes ? bytes : kPacketBytes; }
  void put(uint32_t dword) { ib_[at_++] = dword; }
  void put_address(uint64_t address) {
    put(address);
    put(address >> 32);
  }

  std::span<uint32_t> ib_;
  uint32_t less_;
  uint32_t at_ = 0;
};

}  // namespace amdgpu_criu::gpu
