// SPDX-License-Identifier: GPL-2.0
// The host data path (HDP), through which the CPU reaches VRAM by BAR 0. The hardware may hold back
// what the CPU writes until it is flushed.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

namespace gpu {

// Any thread.
class HostDataPath {
 public:
  // holds: all that the CPU writes, until the next flush. Else it is in VRAM at once.
  HostDataPath(std::span<std::byte> vram, bool holds) : vram_(vram), holds_(holds) {}

  bool holds() const { return holds_; }
  // Of the CPU. The range is inside of VRAM.
  void write(uint64_t offset, std::span<const std::byte> data);
  void read(uint64_t offset, std::span<std::byte> out);
  void flush();

 private:
  static constexpr uint64_t kPage = 4096;

  struct Page {
    std::array<std::byte, kPage> bytes;
    std::bitset<kPage> written;
  };

  const std::span<std::byte> vram_;
  const bool holds_;
  std::mutex mutex_;
  std::map<uint64_t, Page> held_;  // by number
};

}  // namespace gpu
