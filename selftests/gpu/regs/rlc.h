// SPDX-License-Identifier: GPL-2.0
// RLC: safe mode handshake and the free-running GPU clock.
#pragma once

#include <atomic>
#include <chrono>

#include "core/interfaces.h"

namespace gpu {

// 100 MHz, as the VBIOS says (smu_info core_refclk); the same for engines, interrupt entries and
// all GPUs of a machine.
struct GpuClock {
  uint64_t ticks() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::nanoseconds(now).count()) / 10;
  }
};

class Rlc final : public RegisterBlock {
 public:
  // offset: of the registers of its XCC.
  explicit Rlc(const GpuClock& clock, uint32_t offset = 0) : clock_(clock), offset_(offset) {}

  amdgpu_criu::Status claim(Registers& registers) {
    TRY(registers.claim(*this, offset_ + kSafeMode, offset_ + kSafeMode));
    return registers.claim(*this, offset_ + kClockLow, offset_ + kClockCapture);
  }
  void reset() { safe_mode_ = 0; }

  std::string_view name() const override { return "RLC"; }
  uint32_t read(uint32_t dword) override {
    dword -= offset_;
    if (dword == kSafeMode) return safe_mode_;
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
    if (dword == kSafeMode) safe_mode_ = value & ~kCommand;
    if (dword == kClockCapture) {
      captured_ = clock_.ticks();
      latched_ = true;
    }
  }

 private:
  static constexpr uint32_t kSafeMode = 0xec05;
  static constexpr uint32_t kCommand = 1;  // cleared when the RLC has taken the message
  static constexpr uint32_t kClockLow = 0xec24;
  static constexpr uint32_t kClockHigh = 0xec25;
  static constexpr uint32_t kClockCapture = 0xec26;

  const GpuClock& clock_;
  const uint32_t offset_;
  std::atomic<uint32_t> safe_mode_ = 0;
  std::atomic<uint64_t> captured_ = 0;
  std::atomic<bool> latched_ = false;
};

}  // namespace gpu
