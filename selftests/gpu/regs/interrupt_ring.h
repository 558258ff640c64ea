// SPDX-License-Identifier: GPL-2.0
// OSSSYS 4.x and 6.0 interrupt handler: ring 0, its write-back and doorbell, the PASID look-up
// tables. Chips of several dies name the die in each entry (OSSSYS 4.4.2).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/interfaces.h"
#include "mem/gpu_memory.h"
#include "mem/physical.h"
#include "regs/rlc.h"

namespace gpu {

// Any thread. The interrupt is signalled with the lock held, so that none is lost between an
// entry and the driver's acknowledgement; signal must not call back.
class InterruptRing final : public RegisterBlock, public InterruptSink, public PasidTable {
 public:
  struct Spec {
    bool nodes = false;      // entries name the die
    unsigned hubs = 1;       // the largest number of hubs of a kind
    uint32_t bus_space = 1;  // MC_SPACE of a guest-physical ring
  };

  InterruptRing(const Spec& spec, PhysicalMemory& memory, const GpuClock& clock,
                std::function<void()> signal)
      : spec_(spec), memory_(memory), clock_(clock), signal_(std::move(signal)), luts_(spec.hubs) {}

  // For a ring in the driver's address space (VMID 0), until memory is destroyed.
  void translate_by(GpuMemory& memory) { translation_ = &memory; }

  amdgpu_criu::Status claim(Registers& registers);
  void reset();
  // Signals again if the driver has entries to read: after it got an interrupt line.
  void resignal();
  // True if the doorbell is this block's: of the ring, or of the retry CAM.
  bool ring_doorbell(uint32_t offset, uint64_t value);

  void raise(const Interrupt& interrupt) override;
  uint32_t pasid(Space space) const override;
  void set_pasid(Space space, uint32_t pasid) override;

  std::string_view name() const override { return "IH"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  static constexpr uint32_t kEntryBytes = 32;

 private:
  static constexpr uint32_t kLutWords = 32;
  static constexpr uint32_t kRingWords = 9;
  static constexpr size_t kCamEntries = 64;

  // All below: with mutex_ held.
  uint32_t ring_bytes() const;
  bool signals() const;
  // An address of the ring and its write-back; none if the driver's space is not modelled.
  std::optional<PhysicalAddress> physical(uint64_t address) const;
  // The place of a new fault in the CAM; none if it waits there already, or no place is free.
  std::optional<uint32_t> remember(const Interrupt& fault);
  void push(const std::array<uint32_t, 8>& entry);
  void write_back();
  void acknowledge(uint32_t rptr);
  void set_control(uint32_t value);

  const Spec spec_;
  PhysicalMemory& memory_;
  GpuMemory* translation_ = nullptr;
  const GpuClock& clock_;
  std::function<void()> signal_;
  mutable std::mutex mutex_;
  // By instance of a hub. A register write sets all of them, because the driver uses these
  // registers for VMIDs that are the same on all hubs.
  std::vector<std::array<uint32_t, kLutWords>> luts_;
  std::array<uint32_t, kRingWords> ring_ = {};
  // Faults that are repeated. Each is in the ring once, until the driver rings the doorbell with
  // its index.
  std::array<std::optional<uint64_t>, kCamEntries> cam_;
  bool reported_ = false;  // an invalid ring has been reported
};

}  // namespace gpu
