// SPDX-License-Identifier: GPL-2.0
// RLC: safe mode handshake and the free-running GPU clock, which newer chips also have in SMUIO.
#pragma once

#include <atomic>

#include "core/clock.h"
#include "core/interfaces.h"
#include "regs/gc_9_4_2.h"

namespace gpu {

struct GpuClock {
  uint64_t ticks() const { return gpu_clock(); }
};

class Rlc final : public RegisterBlock {
 public:
  // safe_mode: RLC_SAFE_MODE; offset: of the registers of its XCC.
  explicit Rlc(const GpuClock& clock, uint32_t safe_mode = kSafeMode, uint32_t offset = 0)
      : clock_(clock), safe_mode_at_(safe_mode), offset_(offset) {}

  amdgpu_criu::Status claim(Registers& registers) {
    TRY(registers.claim(*this, offset_ + safe_mode_at_, offset_ + safe_mode_at_));
    return registers.claim(*this, offset_ + kClockLow, offset_ + kClockCapture);
  }
  void reset() { safe_mode_ = 0; }

  std::string_view name() const override { return "RLC"; }
  uint32_t read(uint32_t dword) override {
    dword -= offset_;
    if (dword == safe_mode_at_) return safe_mode_;
    // The high half belongs to the low half that was read or captured before it.
    if (dword == kClockHigh) return static_cast<uint32_t>(captured_ >> 32);
    if (dword == kClockLow) {
      if (!latched_.exchange(false)) captured_ = clock_.ticks();
      return static_cast<uint32_t>(captured_);
    }
    return 0;
  }
  void write(uint32_t dword, uint32_t value) override {
    dword -= offset_;
    if (dword == safe_mode_at_) safe_mode_ = value & ~kCommand;
    if (dword == kClockCapture) {
      captured_ = clock_.ticks();
      latched_ = true;
    }
  }

 private:
  // GC 11.0 has the clock at the same place.
  using r = reg::gc_9_4_2;
  static constexpr uint32_t kBase = reg::kGcSegment1;
  static constexpr uint32_t kSafeMode = kBase + r::RLC_SAFE_MODE.offset;
  static constexpr uint32_t kClockLow = kBase + r::RLC_GPU_CLOCK_COUNT_LSB.offset;
  static constexpr uint32_t kClockHigh = kBase + r::RLC_GPU_CLOCK_COUNT_MSB.offset;
  static constexpr uint32_t kClockCapture = kBase + r::RLC_CAPTURE_GPU_CLOCK_COUNT.offset;
  static constexpr uint32_t kCommand = 1;  // cleared when the RLC has taken the message

  const GpuClock& clock_;
  const uint32_t safe_mode_at_;
  const uint32_t offset_;
  std::atomic<uint32_t> safe_mode_ = 0;
  std::atomic<uint64_t> captured_ = 0;
  std::atomic<bool> latched_ = false;
};

// GOLDEN_TSC_COUNT_UPPER and _LOWER.
class GoldenClock final : public RegisterBlock {
 public:
  GoldenClock(const GpuClock& clock, uint32_t upper) : clock_(clock), upper_(upper) {}

  amdgpu_criu::Status claim(Registers& registers) {
    return registers.claim(*this, upper_, upper_ + 1);
  }
  std::string_view name() const override { return "SMUIO clock"; }
  uint32_t read(uint32_t dword) override {
    const uint64_t now = clock_.ticks();
    return static_cast<uint32_t>(dword == upper_ ? now >> 32 : now);
  }
  void write(uint32_t, uint32_t) override {}

 private:
  const GpuClock& clock_;
  const uint32_t upper_;
};

}  // namespace gpu
