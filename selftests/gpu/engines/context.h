// SPDX-License-Identifier: GPL-2.0
// What every engine needs: memory, registers, interrupts, the clock, and somewhere to complain.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "core/interfaces.h"

namespace gpu {

// Messages for whoever runs the model: malformed packets and packets it does not model.
using Report = std::function<void(const std::string&)>;

struct Context {
  Memory& memory;
  Registers& registers;
  InterruptSink& interrupts;
  Report report;

  // 100 MHz, as the firmware tables say; RLC_GPU_CLOCK_COUNT counts the same.
  static uint64_t clock() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::nanoseconds(now).count()) / 10;
  }
};

// How much a queue may do before the next one has its turn.
struct Budget {
  uint64_t bytes = 1 << 20;
  unsigned packets = 64;

  bool spent() const { return bytes == 0 || packets == 0; }
  void use_bytes(uint64_t count) { bytes -= count < bytes ? count : bytes; }
};

// What became of a packet.
enum class Step {
  kDone,
  kMore,     // the budget is spent; the stream remembers how far it came
  kWait,     // a condition is not met; look again later
  kStarved,  // the packet is not whole yet; the next doorbell brings the rest
};

}  // namespace gpu
