// SPDX-License-Identifier: GPL-2.0
// How the XCCs of a chip form partitions (GC 9.4.3, NBIO 7.9): CP_HYP_XCP_CTL of each XCC, and the
// modes that NBIO shows.
#pragma once

#include <atomic>
#include <vector>

#include "core/interfaces.h"
#include "regs/gc_9_4_3.h"

namespace gpu {

// A group of XCCs that the driver uses as one compute device.
struct Partition {
  // Of XCC 0.
  static constexpr uint32_t kControl = reg::kGcSegment1 + reg::gc_9_4_3::CP_HYP_XCP_CTL.offset;

  unsigned first;  // XCC
  unsigned count;

  // own: the XCC of the register. Until the driver has written it, the XCC is alone.
  static Partition of(unsigned own, uint32_t control) {
    const unsigned position = control & 7;
    const unsigned count = control >> 3 & 15;
    if (count == 0 || position > own || position >= count) return {own, 1};
    return {own - position, count};
  }
};

class Partitions final : public RegisterBlock {
 public:
  // memory: partitions of the VRAM, which the driver cannot change without a PSP.
  explicit Partitions(unsigned xccs, unsigned memory = 1)
      : control_(xccs), memory_mode_(1u << (memory - 1)) {}

  amdgpu_criu::Status claim(Registers& registers);
  void reset();

  std::string_view name() const override { return "partitions"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

 private:
  std::vector<std::atomic<uint32_t>> control_;
  uint32_t memory_mode_;  // bit 0: NPS1, bit 1: NPS2, bit 3: NPS4
};

}  // namespace gpu
