// SPDX-License-Identifier: GPL-2.0
// Compute units, and which of them have room for another work-group.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "shader/relaunch.h"

namespace gpu::shader {

// A unit as the bits [15:8] of HW_ID name it.
struct UnitId {
  unsigned engine = 0, array = 0, unit = 0;
  uint32_t hw_id() const { return engine << 13 | array << 12 | unit << 8; }
};

class Units {
 public:
  static constexpr unsigned kWaves = 32;  // of a unit: 8 of each of its 4 SIMDs
  static constexpr uint32_t kLds = 64 << 10;

  Units(std::vector<UnitId> ids, const WaveShape& shape, unsigned waves_per_group);

  // A group that hardware could never start.
  bool group_fits() const { return group_waves_ <= unit_waves_; }
  // Takes the emptiest unit of the engines, a bit for each; none: there is no room.
  std::optional<unsigned> take(uint32_t engines = ~0u);
  void give_back(unsigned unit) { --groups_[unit]; }
  unsigned engine(unsigned unit) const { return ids_[unit].engine; }
  uint32_t hw_id(unsigned unit) const { return ids_[unit].hw_id(); }

 private:
  bool has_room(size_t unit, uint32_t engines) const {
    return groups_[unit] < groups_per_unit_ && engines >> ids_[unit].engine & 1;
  }

  std::vector<UnitId> ids_;
  std::vector<unsigned> groups_;  // in flight, of each unit
  unsigned group_waves_, unit_waves_;
  unsigned groups_per_unit_;
};

// The WAVE_IDs that waves of an XCC have, a bit for each, by SIMD: bits [15:4] of HW_ID.
using WaveIds = std::array<uint16_t, 1 << 12>;

// Of a wave, as long as it exists: the lowest that is free on its SIMD. Waves of all dispatches
// share them, because the driver counts them (gfx_v9_4_2_do_sgprs_init()).
class WaveId {
 public:
  WaveId(WaveIds& taken, uint32_t hw_id);
  ~WaveId() { of_simd_ &= static_cast<uint16_t>(~(1u << number_)); }
  WaveId(const WaveId&) = delete;
  WaveId& operator=(const WaveId&) = delete;
  uint32_t number() const { return number_; }

 private:
  uint16_t& of_simd_;
  uint32_t number_;
};

}  // namespace gpu::shader
