// SPDX-License-Identifier: GPL-2.0
// NBIO 4.3, 7.4 and 7.9: the interface between PCI and the chip. Indirect access, memory size, BIOS
// scratch, HDP flush.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "core/interfaces.h"
#include "regs/ip_registers.h"

namespace gpu {

// Of the first AID; the same in all versions.
constexpr uint32_t nbio(reg::Register place) {
  return reg::kNbioSegments[place.segment] + place.offset;
}

class Nbio final : public RegisterBlock {
 public:
  struct Spec {
    uint32_t smn_index = 0xe;               // the data register follows
    bool extended_smn = false;              // there is PCIE_INDEX2_HI
    uint32_t hdp_flush = 0x1fc00;           // Asic::hdp_flush
    std::map<uint64_t, uint32_t> smn = {};  // after a reset
    std::function<void()> flush_hdp = [] {};
  };

  Nbio(Registers& registers, std::span<std::byte> vram, Spec spec)
      : registers_(registers), vram_(vram), spec_(std::move(spec)) {
    reset();
  }

  amdgpu_criu::Status claim();
  void reset();
  // The driver marks a hung engine in the BIOS scratch area before it resets the chip.
  bool engine_hung() const;

  std::string_view name() const override { return "NBIO"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

 private:
  static constexpr uint32_t kScratchWords = 16;

  std::span<std::byte> indirect_vram();
  uint64_t smn_address() const { return smn_index_ | uint64_t{smn_index_high_} << 32; }
  uint32_t read_smn();
  void write_smn(uint32_t value);
  uint32_t read_indirect();
  void write_indirect(uint32_t value);

  Registers& registers_;
  const std::span<std::byte> vram_;
  const Spec spec_;
  std::array<std::atomic<uint32_t>, kScratchWords> scratch_;
  std::atomic<uint32_t> index_ = 0;
  std::atomic<uint32_t> index_high_ = 0;
  std::atomic<uint32_t> smn_index_ = 0;
  std::atomic<uint32_t> smn_index_high_ = 0;
  std::mutex mutex_;  // smn_
  std::map<uint64_t, uint32_t> smn_;
};

}  // namespace gpu
