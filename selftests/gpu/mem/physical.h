// SPDX-License-Identifier: GPL-2.0
// Physical memory: guest-physical memory, BARs of other GPUs, and the VRAM of the hive.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "mem/dma_table.h"
#include "mem/vram.h"

namespace gpu {

struct PhysicalAddress {
  bool system;  // guest-physical; else an offset into the hive's VRAM
  uint64_t address;
};

class PhysicalMemory {
 public:
  PhysicalMemory(DmaTable& dma, Vram& vram) : dma_(dma), vram_(vram) {}

  // The longest prefix that is contiguous here; empty where there is no memory.
  std::span<std::byte> find(PhysicalAddress from, size_t size, bool for_write) {
    if (!from.system) return vram_.find(from.address, size);
    const auto ram = dma_.find(from.address, size, for_write);
    return ram.empty() ? vram_.find_in_bars(from.address, size) : ram;
  }
  // Memory that find() returned stays mapped until the last holder releases it.
  std::shared_ptr<const void> hold() const { return dma_.hold(); }

  // One naturally aligned value in one access; nothing where there is no such memory.
  template <typename T>
  std::optional<T> load(PhysicalAddress from) {
    const auto held = hold();
    const auto cell = find(from, sizeof(T), false);
    if (from.address % sizeof(T) || cell.size() < sizeof(T)) return std::nullopt;
    return std::atomic_ref(*reinterpret_cast<T*>(cell.data())).load(std::memory_order_acquire);
  }
  template <typename T>
  bool store(PhysicalAddress to, T value) {
    const auto held = hold();
    const auto cell = find(to, sizeof(T), true);
    if (to.address % sizeof(T) || cell.size() < sizeof(T)) return false;
    std::atomic_ref(*reinterpret_cast<T*>(cell.data())).store(value, std::memory_order_release);
    return true;
  }

 private:
  DmaTable& dma_;
  Vram& vram_;
};

}  // namespace gpu
