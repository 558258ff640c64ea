// SPDX-License-Identifier: GPL-2.0
#include "shader/wave.h"

#include <algorithm>

namespace gpu::shader {
namespace {

constexpr unsigned kFirstFloat = 240, kLastFloat = 248;
constexpr double kOneOverTwoPi = 0.15915494309189532;

constexpr double kFloats[] = {0.5, -0.5, 1, -1, 2, -2, 4, -4, kOneOverTwoPi};

}  // namespace

void Wave::reset(WorkGroup& of, MemoryView& view, unsigned count, unsigned accum, Isa isa,
                 unsigned lanes) {
  std::fill_n(rows_.begin(), std::min(count, kRows), Row{});
  sgpr = {};
  pc = 0;
  scc = false;
  in_handler = false;
  mode = 0;
  status = status::kValid;
  trapsts = 0;
  ib_sts = 0;
  vgprs = count;
  accum_offset = accum;
  group = &of;
  memory = &view;
  lanes_ = lanes;
  lane_mask_ = ~uint64_t{0} >> (kLanes - lanes);
  is_gfx11_ = is_gfx11(isa);
  stop = Stop::kNone;
  complaint.clear();
}

// TTMP0 and 1: PC [47:0], trap id [55:48].
void Wave::enter_trap(uint32_t trap_id) {
  set_s64(operand::kTtmp, (pc & 0xffffffffffff) | uint64_t{trap_id} << 48);
  enter_handler(trap.tba);
}

uint32_t Wave::scalar(unsigned code, const Instruction& in) const {
  if (code < 128) return sgpr[code];
  if (code <= 192) return code - 128;
  if (code <= 208) return 192 - code;
  if (code >= kFirstFloat && code <= kLastFloat) {
    return std::bit_cast<uint32_t>(static_cast<float>(kFloats[code - kFirstFloat]));
  }
  switch (code) {
    case operand::kVccz:
      return vcc() == 0;
    case operand::kExecz:
      return exec() == 0;
    case operand::kScc:
      return scc;
    case operand::kLiteral:
      return in.literal;
    default:
      return 0;
  }
}

// A literal is the high half of a double, and the zero-extended low half of an integer. The
// aperture registers are whole addresses; as an operand of 32 bits they read 0 (LLVM,
// getSegmentAperture).
uint64_t Wave::scalar64(unsigned code, const Instruction& in, bool is_float) const {
  if (code < 128) return s64(code);
  if (code > 192 && code <= 208) return static_cast<uint64_t>(int64_t{192} - code);
  if (code >= kFirstFloat && code <= kLastFloat) {
    return std::bit_cast<uint64_t>(kFloats[code - kFirstFloat]);
  }
  if (code == operand::kSharedBase) return apertures.shared;
  if (code == operand::kPrivateBase) return apertures.scratch;
  if (code == operand::kSharedLimit) return apertures.shared + Apertures::kSize - 1;
  if (code == operand::kPrivateLimit) return apertures.scratch + Apertures::kSize - 1;
  if (code == operand::kLiteral && is_float) return uint64_t{in.literal} << 32;
  return scalar(code, in);
}

}  // namespace gpu::shader
