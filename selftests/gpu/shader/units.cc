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

std::optional<unsigned> Units::take_again() {
  const auto emptiest = std::ranges::min_element(groups_);
  if (emptiest == groups_.end()) return std::nullopt;
  ++*emptiest;
  return static_cast<unsigned>(emptiest - groups_.begin());
}

std::optional<unsigned> Units::take() {
  const auto room = [&](unsigned groups) { return groups < groups_per_unit_; };
  return std::ranges::any_of(groups_, room) ? take_again() : std::nullopt;
}

}  // namespace gpu::shader
