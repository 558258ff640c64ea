// SPDX-License-Identifier: GPL-2.0
// DPP: the first source comes from another lane.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

// The lane that a DPP control word names for a lane; negative: none is valid there.
int dpp16_source(unsigned control, int lane) {
  const int row = lane & ~15, in_row = lane & 15;
  const int amount = static_cast<int>(control & 15);
  if (control <= 0xff) return (lane & ~3) | static_cast<int>(control >> (2 * (lane & 3)) & 3);
  if (control >= 0x101 && control <= 0x10f) return in_row + amount > 15 ? -1 : lane + amount;
  if (control >= 0x111 && control <= 0x11f) return in_row < amount ? -1 : lane - amount;
  if (control >= 0x121 && control <= 0x12f) return row | ((in_row - amount) & 15);
  switch (control) {
    case 0x130:  // wave_shl
      return lane == 63 ? -1 : lane + 1;
    case 0x134:  // wave_rol
      return (lane + 1) & 63;
    case 0x138:  // wave_shr
      return lane - 1;
    case 0x13c:  // wave_ror
      return (lane - 1) & 63;
    case 0x140:  // row_mirror
      return row | (15 - in_row);
    case 0x141:  // row_half_mirror
      return (lane & ~7) | (7 - (lane & 7));
    // Lanes before the first row that gets a value keep their own: rocWMMA's cross_lane_ops_test.
    case 0x142:  // row_bcast:15
      return lane < 16 ? lane : row - 1;
    case 0x143:  // row_bcast:31
      return lane < 32 ? lane : 31;
    default:
      if (control >= 0x150 && control <= 0x15f) return row | amount;   // row_newbcast, row_share
      if (control >= 0x160 && control <= 0x16f) return lane ^ amount;  // row_xmask
      return -1;
  }
}

// Eight lanes exchange values as three bits for each of them say.
int dpp_source(const Instruction& in, int lane) {
  if (in.dpp8) return (lane & ~7) | static_cast<int>(in.literal >> (8 + 3 * (lane & 7)) & 7);
  return dpp16_source(bits(in.literal, 16, 8), lane);
}

bool dpp_is_known(const Instruction& in) {
  if (in.dpp8) return true;
  const unsigned control = bits(in.literal, 16, 8);
  if (control <= 0xff) return true;
  if (control >= 0x101 && control <= 0x12f) return control % 16 != 0;
  if (is_gfx11(in.isa)) return control == 0x140 || control == 0x141 || control >= 0x150;
  constexpr unsigned kOthers[] = {0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143};
  return std::ranges::find(kOthers, control) != std::end(kOthers) ||
         (control >= 0x150 && control <= 0x15f);
}

// The lanes whose values others may take.
uint64_t dpp_sources(const Wave& wave, const Instruction& in) {
  return in.fetch_inactive ? wave.lane_mask() : wave.exec();
}

}  // namespace

bool refuses_dpp(Wave& wave, const Instruction& in) {
  if (in.extra != Instruction::Extra::kDpp || dpp_is_known(in)) return false;
  wave.refuse(amdgpu_criu::formatted("DPP control {:#x} is not modelled", bits(in.literal, 16, 8)));
  return true;
}

void dpp_gather(const Wave& wave, const Instruction& in, const Row& from, uint32_t* to) {
  const uint64_t valid = dpp_sources(wave, in);
  for (int lane = 0; lane < static_cast<int>(wave.lanes()); ++lane) {
    const int source = dpp_source(in, lane);
    to[lane] = source >= 0 && valid >> source & 1 ? from.lane[source] : 0;
  }
}

// Rows and banks of its masks. A lane whose source does not exist or is not active is written only
// when bound_ctrl makes it 0.
uint64_t dpp_mask(const Wave& wave, const Instruction& in) {
  if (in.dpp8) return wave.exec();
  const uint32_t word = in.literal;
  const uint64_t sources = dpp_sources(wave, in);
  const bool bound_zero = bits(word, 19, 19);
  uint64_t mask = 0;
  for (int lane = 0; lane < static_cast<int>(wave.lanes()); ++lane) {
    const bool row = bits(word, 31, 28) >> (lane / 16) & 1;
    const bool bank = bits(word, 27, 24) >> (lane / 4 % 4) & 1;
    const int source = dpp_source(in, lane);
    const bool valid = bound_zero || (source >= 0 && sources >> source & 1);
    if (row && bank && valid) mask |= uint64_t{1} << lane;
  }
  return mask & wave.exec();
}

}  // namespace gpu::shader
