// SPDX-License-Identifier: GPL-2.0
// The compute units that are fused off, of the shader engine that GRBM_GFX_INDEX selects.
#pragma once

#include <atomic>
#include <vector>

#include "asic/asic.h"
#include "core/interfaces.h"

namespace gpu {

class UnitFuses final : public RegisterBlock {
 public:
  // offset: of the registers of its XCC.
  UnitFuses(const Asic& asic, uint32_t offset)
      : at_(asic.unit_registers.value_or(UnitRegisters{})),
        offset_(offset),
        fused_(asic.fused_units) {}

  amdgpu_criu::Status claim(Registers& registers) {
    for (const uint32_t at : {at_.select, at_.fused, at_.user})
      TRY(registers.claim(*this, offset_ + at, offset_ + at));
    return {};
  }
  void reset() { select_ = 0; }

  std::string_view name() const override { return "compute units"; }
  uint32_t read(uint32_t dword) override {
    dword -= offset_;
    if (dword == at_.select) return select_;
    const uint32_t engine = select_ >> kEngineShift & 0xff;
    return dword == at_.fused && engine < fused_.size() ? fused_[engine] << kUnitsShift : 0;
  }
  void write(uint32_t dword, uint32_t value) override {
    if (dword - offset_ == at_.select) select_ = value;
  }

 private:
  static constexpr unsigned kEngineShift = 16, kUnitsShift = 16;

  const UnitRegisters at_;
  const uint32_t offset_;
  const std::vector<uint32_t> fused_;  // a bit for each unit of an engine
  std::atomic<uint32_t> select_ = 0;
};

}  // namespace gpu
