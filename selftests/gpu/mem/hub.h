// SPDX-License-Identifier: GPL-2.0
// One translation hub's registers: VM contexts, invalidation, apertures, fault status.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/interfaces.h"
#include "mem/hub_layout.h"
#include "mem/page_walker.h"
#include "mem/tlb.h"

namespace gpu {

// Registers are single words that hardware and driver change at any time: atomics, no lock.
class HubRegisters final : public RegisterBlock {
 public:
  static constexpr unsigned kVmids = 16;

  struct Spec {
    Hub hub;
    HubLayout layout;
    uint32_t base;     // VM_L2_CNTL
    uint64_t fb_base;  // address of the hive's VRAM in VMID 0
    uint64_t segment;  // bytes of VRAM of each GPU
    unsigned node = 0;
    unsigned nodes = 1;
  };

  explicit HubRegisters(const Spec& spec)
      : spec_(spec), at_(spec.layout), words_(spec.layout.words) {
    reset();
  }

  amdgpu_criu::Status claim(Registers& registers);
  void reset();

  std::string_view name() const override {
    return spec_.hub == Hub::kGfx ? "GC VM hub" : "MM VM hub";
  }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  // vmid: below kVmids.
  AddressSpace context(unsigned vmid) const;
  Tlb& tlb(unsigned vmid) { return tlbs_[vmid]; }
  void set_page_table_base(unsigned vmid, uint64_t base);
  // Whether accesses that fault are repeated. Both the VMID's register and its process decide.
  bool retries(unsigned vmid) const;
  void set_retries(unsigned vmid, bool retries) { retries_[vmid] = retries; }
  // The frame buffer aperture of VMID 0: first and last byte.
  uint64_t fb_base() const;
  uint64_t fb_end() const;

  // The first fault is kept until the driver clears it; those after it only set MORE_FAULTS.
  void latch_fault(unsigned vmid, uint64_t address, bool for_write, FaultCause cause);

 private:
  uint64_t pair(uint32_t word) const;

  const Spec spec_;
  const HubLayout at_;
  std::vector<std::atomic<uint32_t>> words_;
  std::array<Tlb, kVmids> tlbs_;
  std::array<std::atomic<bool>, kVmids> retries_ = {};
};

}  // namespace gpu
