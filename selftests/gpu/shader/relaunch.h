// SPDX-License-Identifier: GPL-2.0
// Saved waves: the words of a control stack and the records of a save area, as the debugger reads
// them (ROCdbgapi, gfx90a) and the driver's trap handler lays them out.
//
// The records grow upward, each followed by a gap. The stack grows downward; read upward from its
// fill level it has two words of PM4, then COMPUTE_RELAUNCH words: a state, and the waves that have
// it, from the highest record to the lowest. The waves of a group are contiguous, its first wave
// first, whose record also has the LDS.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/packets.h"
#include "shader/wave.h"

namespace gpu::shader {

// The common properties of the waves of a dispatch.
struct WaveShape {
  unsigned vgprs = 8;         // of both kinds, a multiple of 8
  unsigned accum_offset = 8;  // VGPRs of the first kind, a multiple of 4
  unsigned lds_bytes = 0;     // of a group, a multiple of 512

  uint64_t record_bytes(bool first) const {
    constexpr uint64_t kHwregs = 64, kTtmps = 64;
    return vgprs * uint64_t{256} + kSgprs * uint64_t{4} + kHwregs + kTtmps +
           (first ? lds_bytes : 0);
  }
};
constexpr uint64_t kRecordGap = 64;

struct RelaunchState {
  static constexpr uint32_t kIsState = 1u << 31;
  static constexpr uint32_t kIsEvent = 1u << 30;

  // SGPRs are counted with the 16 TTMPs.
  static uint32_t pack(const WaveShape& shape) {
    return kIsState | (shape.vgprs / 8 - 1) | (kSgprs / 16) << 6 | (shape.lds_bytes / 512) << 9 |
           (shape.accum_offset / 4 - 1) << 24;
  }
  static WaveShape unpack(uint32_t word) {
    return {.vgprs = (bits(word, 5, 0) + 1) * 8,
            .accum_offset = (bits(word, 29, 24) + 1) * 4,
            .lds_bytes = bits(word, 16, 9) * 512};
  }
};

struct RelaunchWave {
  unsigned scoreboard = 0;  // scratch slot in its shader engine
  unsigned engine = 0;
  bool scratch = false, last = false, first = false;

  uint32_t pack() const {
    return scoreboard | engine << 9 | uint32_t{scratch} << 15 | uint32_t{last} << 16 |
           uint32_t{first} << 17;
  }
  static RelaunchWave unpack(uint32_t word) {
    return {.scoreboard = bits(word, 8, 0),
            .engine = bits(word, 11, 9),
            .scratch = bits(word, 15, 15) != 0,
            .last = bits(word, 16, 16) != 0,
            .first = bits(word, 17, 17) != 0};
  }
};

// The two words on top: a NOP of PM4 and how many words follow.
constexpr size_t kStackPm4Words = 2;

// EXEC as SPI writes it for the trap handler: the record, and whether the wave is the first.
constexpr uint64_t record_for_handler(uint64_t address, bool first) {
  return (address & 0xffffffffffff) | uint64_t{first} << 58;
}

}  // namespace gpu::shader
