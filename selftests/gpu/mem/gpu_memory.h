// SPDX-License-Identifier: GPL-2.0
// The Memory that engines see: VMID 0 apertures and page tables on both hubs, fault reports.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "core/interfaces.h"
#include "mem/hub.h"
#include "mem/page_walker.h"
#include "mem/physical.h"

namespace gpu {

// The process of a VMID, from the interrupt handler's look-up tables.
class PasidTable {
 public:
  virtual ~PasidTable() = default;
  virtual uint32_t pasid(Space space) const = 0;
  virtual void set_pasid(Space space, uint32_t pasid) = 0;
};

class GpuMemory final : public Memory {
 public:
  // By instance: the hub of each XCC and of each AID.
  struct Hubs {
    std::vector<HubRegisters*> gfx;
    std::vector<HubRegisters*> mm;
    uint8_t gfx_fault_client = 0x1b;  // of interrupts
  };

  // A write to a guest-physical address without memory. False: there is no target. The GPU's own
  // doorbells are one, which it reaches over the bus as the CPU does.
  using BusWrite = std::function<bool(uint64_t address, std::span<const std::byte> data)>;

  static amdgpu_criu::Result<std::unique_ptr<GpuMemory>> create(PhysicalMemory& physical, Hubs hubs,
                                                                PasidTable& pasids,
                                                                InterruptSink& interrupts,
                                                                BusWrite bus_write);

  Hold hold() override { return physical_.hold(); }
  amdgpu_criu::Status read(Space space, uint64_t address, std::span<std::byte> out) override;
  amdgpu_criu::Status write(Space space, uint64_t address,
                            std::span<const std::byte> data) override;
  amdgpu_criu::Result<std::span<std::byte>> window(Space space, uint64_t address, size_t size,
                                                   bool for_write) override;
  amdgpu_criu::Result<std::span<std::byte>> code(Space space, uint64_t address,
                                                 size_t size) override;
  void bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool retries) override;
  void invalidate_pasid(Space space, uint32_t pasid) override;

  // Translates an address without reporting a fault.
  PhysicalRun translate(Space space, uint64_t address, uint64_t size, bool for_write);
  uint64_t faults() const { return faults_; }

 private:
  GpuMemory(PhysicalMemory& physical, Hubs hubs, PasidTable& pasids, InterruptSink& interrupts,
            BusWrite bus_write, amdgpu_criu::Mapping zeros, amdgpu_criu::Mapping sink)
      : physical_(physical),
        hubs_(std::move(hubs)),
        pasids_(pasids),
        interrupts_(interrupts),
        bus_write_(std::move(bus_write)),
        walker_(physical),
        zeros_(std::move(zeros)),
        sink_(std::move(sink)) {}

  // Null if the chip has no such hub or VMID.
  HubRegisters* hub(Space space) const;
  PhysicalRun look_up(HubRegisters& registers, unsigned vmid, uint64_t page, uint64_t size,
                      bool for_write);
  std::span<std::byte> host(const PhysicalRun& run, bool for_write);
  amdgpu_criu::Error report(Space space, uint64_t address, bool for_write, const PhysicalRun& run);

  PhysicalMemory& physical_;
  const Hubs hubs_;
  PasidTable& pasids_;
  InterruptSink& interrupts_;
  const BusWrite bus_write_;
  PageWalker walker_;
  // Unbacked (PRT) pages read from the one and write to the other.
  amdgpu_criu::Mapping zeros_;
  amdgpu_criu::Mapping sink_;
  std::atomic<uint64_t> faults_ = 0;
};

}  // namespace gpu
