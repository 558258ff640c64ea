// SPDX-License-Identifier: GPL-2.0
// The environment of every engine: memory, registers, interrupts, the clock, and reports.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "asic/asic.h"
#include "core/clock.h"
#include "core/interfaces.h"

namespace gpu {
namespace shader {
class Cores;
}

// Messages for the user of the model: malformed packets and packets that it does not model.
using Report = std::function<void(const std::string&)>;

struct Context {
  const Asic& asic;
  unsigned xcc;  // whose engines these are
  Memory& memory;
  Registers& registers;
  InterruptSink& interrupts;
  Report report;
  shader::Cores& cores;
  // The memory as any XCC sees it.
  std::function<Memory&(unsigned xcc)> memory_of = {};
  // Returns when the accesses to memory that SDMA engines had begun are done.
  std::function<void()> finish_sdma = [] {};

  static uint64_t clock() { return gpu_clock(); }
};

// The amount of work of a queue before the next queue runs.
struct Budget {
  uint64_t bytes = 1 << 20;
  unsigned packets = 64;

  bool spent() const { return bytes == 0 || packets == 0; }
  void use_bytes(uint64_t count) { bytes -= count < bytes ? count : bytes; }
};

// The result of a packet.
enum class Step {
  kDone,
  kMore,     // the budget is spent; the stream keeps its position
  kWait,     // a condition is not met; check again later
  kStarved,  // the packet is not complete yet; the next doorbell brings the rest
};

}  // namespace gpu
