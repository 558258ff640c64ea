// SPDX-License-Identifier: GPL-2.0
// Saved waves: the words of a control stack and the records of a save area, as the debugger reads
// them (ROCdbgapi, gfx90a and gfx1100) and the driver's trap handler lays them out.
//
// The records grow upward, on GFX9 each followed by a gap. The stack grows downward; read upward
// from its fill level it has two words of PM4, then COMPUTE_RELAUNCH words: a state, and the waves
// that have it, from the highest record to the lowest. The waves of a group are contiguous, its
// first wave first, whose record also has the LDS.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/packets.h"
#include "shader/wave.h"

namespace gpu::shader {

// The common properties of the waves of a dispatch.
struct WaveShape {
  unsigned vgprs = 8;            // of both kinds, a multiple of 8
  unsigned accum_offset = 8;     // VGPRs of the first kind, a multiple of 4
  unsigned lds_bytes = 0;        // of a group, a multiple of 512
  unsigned vgprs_of_simd = 512;  // for each lane
  Isa isa = Isa::kGfx90a;
  unsigned lanes = kLanes;

  uint64_t record_bytes(bool first) const {
    constexpr uint64_t kHwregs = 64, kTtmps = 64, kGfx11SgprBytes = 512;
    const uint64_t sgprs = is_gfx11(isa) ? kGfx11SgprBytes : uint64_t{kSgprs} * 4;
    return vgprs * uint64_t{4} * lanes + sgprs + kHwregs + kTtmps + (first ? lds_bytes : 0);
  }
  // Behind each record.
  uint64_t gap() const { return is_gfx11(isa) ? 0 : 64; }
};

struct RelaunchState {
  static constexpr uint32_t kIsState = 1u << 31;
  static constexpr uint32_t kIsEvent = 1u << 30;

  // SGPRs are counted with the 16 TTMPs. On gfx11, COMPUTE_RELAUNCH2 follows.
  static uint32_t pack(const WaveShape& shape) {
    if (is_gfx11(shape.isa)) {
      const bool narrow = shape.lanes < kLanes;
      return kIsState | (shape.vgprs / (narrow ? 8 : 4) - 1) | (shape.lds_bytes / 512) << 10 |
             uint32_t{narrow} << 24;
    }
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

  uint32_t pack(Isa isa) const {
    if (is_gfx11(isa)) {
      return scoreboard | uint32_t{scratch} << 11 | uint32_t{first} << 12 | engine << 24 |
             uint32_t{last} << 29;
    }
    return scoreboard | engine << 9 | uint32_t{scratch} << 15 | uint32_t{last} << 16 |
           uint32_t{first} << 17;
  }
  static RelaunchWave unpack(uint32_t word, Isa isa) {
    if (is_gfx11(isa)) {
      return {.scoreboard = bits(word, 9, 0),
              .engine = bits(word, 26, 24),
              .scratch = bits(word, 11, 11) != 0,
              .last = bits(word, 29, 29) != 0,
              .first = bits(word, 12, 12) != 0};
    }
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
