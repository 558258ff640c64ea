// SPDX-License-Identifier: GPL-2.0
#include "shader/units.h"

#include <algorithm>

namespace gpu::shader {
namespace {

// Waves share the VGPRs of their SIMD: 512 of each lane, in blocks of 8.
unsigned waves_of_unit(unsigned vgprs) {
  constexpr unsigned kSimds = 4, kVgprs = 512;
  return std::min(Units::kWaves, kSimds * (kVgprs / std::max(vgprs, 8u)));
}

}  // namespace

Units::Units(std::vector<UnitId> ids, const WaveShape& shape, unsigned waves_per_group)
    : ids_(std::move(ids)),
      groups_(ids_.size()),
      group_waves_(std::max(waves_per_group, 1u)),
      unit_waves_(waves_of_unit(shape.vgprs)),
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

}  // namespace gpu::shader
