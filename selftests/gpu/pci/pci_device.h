// SPDX-License-Identifier: GPL-2.0
// A PCI device as a bus sees it: regions, DMA ranges, one interrupt line, reset. The transport
// calls it from one thread; it does not call the transport.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "mem/dma_table.h"

namespace gpu {

class PciDevice {
 public:
  // BARs 0..5, then these; a region of size 0 does not exist.
  static constexpr unsigned kRomRegion = 6;
  static constexpr unsigned kConfigRegion = 7;
  static constexpr unsigned kRegions = 9;

  struct Region {
    uint64_t size = 0;
    bool writable = false;
    const amdgpu_criu::Fd* memory = nullptr;  // if the bus may map it directly
  };

  virtual ~PciDevice() = default;
  virtual Region region(unsigned index) const = 0;
  // The bus has checked that the range lies in the region.
  virtual amdgpu_criu::Status read(unsigned index, uint64_t offset, std::span<std::byte> out) = 0;
  virtual amdgpu_criu::Status write(unsigned index, uint64_t offset,
                                    std::span<const std::byte> data) = 0;

  virtual amdgpu_criu::Status map_dma(const DmaTable::Range& range,
                                      std::optional<amdgpu_criu::Fd> memory, uint64_t offset) = 0;
  virtual amdgpu_criu::Status unmap_dma(uint64_t iova, uint64_t size) = 0;
  // Interrupts add 1 to this eventfd; without one they are lost.
  virtual void set_interrupt(std::optional<amdgpu_criu::Fd> event) = 0;
  virtual void reset() = 0;
  // The bus is disconnected: no DMA and no interrupt from now on.
  virtual void disconnect() = 0;
};

}  // namespace gpu
