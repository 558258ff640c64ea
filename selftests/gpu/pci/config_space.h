// SPDX-License-Identifier: GPL-2.0
// PCI configuration space of the GPU: header, BARs, power management, PCI Express, MSI.
#pragma once

#include <linux/pci_regs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace gpu {

inline constexpr uint16_t kPciVendor = 0x1002;

class ConfigSpace {
 public:
  static constexpr size_t kSize = 4096;

  struct Spec {
    uint16_t device_id;
    uint8_t revision;
    uint32_t class_code;     // base class, subclass, interface
    uint64_t vram_size;      // BAR 0, 64-bit prefetchable
    uint64_t doorbell_size;  // BAR 2, 64-bit prefetchable
    uint64_t mmio_size;      // BAR 5, 32-bit
    uint64_t rom_size;       // all powers of two
  };

  // Sizes must be powers of two: a BAR can express no others.
  static amdgpu_criu::Result<ConfigSpace> create(const Spec& spec);

  void reset();
  // The range must lie inside of the space.
  void read(size_t offset, std::span<std::byte> out) const;
  // Changes writable bits only.
  void write(size_t offset, std::span<const std::byte> data);

  bool bus_master() const;
  // Addresses of BAR 0 and BAR 2; 0: none was assigned.
  uint64_t vram_bar() const { return bar(PCI_BASE_ADDRESS_0); }
  uint64_t doorbell_bar() const { return bar(PCI_BASE_ADDRESS_2); }

 private:
  ConfigSpace() : reset_(kSize), mask_(kSize) {}

  template <typename T>
  void put(size_t offset, T value, T writable = 0);
  void put_header(const Spec& spec);
  void put_bars(const Spec& spec);
  void put_capabilities();
  // 64-bit.
  uint64_t bar(size_t offset) const;

  std::vector<std::byte> reset_;  // values after a reset
  std::vector<std::byte> mask_;   // writable bits
  std::vector<std::byte> now_;
};

}  // namespace gpu
