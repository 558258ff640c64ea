// SPDX-License-Identifier: GPL-2.0
#include "shader/units.h"

#include <algorithm>
#include <bit>

namespace gpu::shader {
namespace {

// Waves share the VGPRs of their SIMD. A unit of gfx11 has two SIMDs, and its work-groups those of
// the other unit of the WGP, too.
unsigned waves_of_unit(const WaveShape& shape) {
  constexpr unsigned kSimds = 4;
  return std::min(Units::kWaves, kSimds * (shape.vgprs_of_simd / std::max(shape.vgprs, 4u)));
}

}  // namespace

Units::Units(std::vector<UnitId> ids, const WaveShape& shape, unsigned waves_per_group)
    : ids_(std::move(ids)),
      groups_(ids_.size()),
      group_waves_(std::max(waves_per_group, 1u)),
      unit_waves_(waves_of_unit(shape)),
      groups_per_unit_(unit_waves_ / group_waves_) {
  if (shape.lds_bytes) groups_per_unit_ = std::min(groups_per_unit_, kLds / shape.lds_bytes);
}

std::optional<unsigned> Units::take(uint32_t engines) {
  std::optional<unsigned> best;
  for (size_t unit = 0; unit < ids_.size(); ++unit) {
    if (has_room(unit, engines) && (!best || groups_[unit] < groups_[*best]))
      best = static_cast<unsigned>(unit);
  }
  if (best) ++groups_[*best];
  return best;
}

// Dispatches do not share the room of a unit, so a SIMD may have more than 16 waves: these share
// the last.
WaveId::WaveId(WaveIds& taken, uint32_t hw_id)
    : of_simd_(taken[(hw_id & 0xffff) >> 4]),
      number_(static_cast<uint32_t>(std::min(std::countr_one(of_simd_), 15))) {
  of_simd_ |= static_cast<uint16_t>(1u << number_);
}

}  // namespace gpu::shader
