// SPDX-License-Identifier: GPL-2.0
// COMPUTE_PGM_RSRC1..3 and the initial registers of a wave: LLVM's AMDGPUUsage, "Kernel
// Descriptor" and "Initial Kernel Execution State".
#include "shader/dispatch.h"

#include <algorithm>
#include <limits>

namespace gpu::shader {
namespace {

// More would be resident on hardware; what does not fit here waits for others to end.
constexpr size_t kMaxResident = 256;
constexpr unsigned kQuantum = 256;
constexpr uint32_t kMaxGroup = 1024;
constexpr uint32_t kMaxLds = 64 << 10;
constexpr uint32_t kLdsGranule = 512;

struct Rsrc1 {
  static unsigned vgprs(uint32_t word) { return (bits(word, 5, 0) + 1) * 8; }
  static uint32_t mode(uint32_t word) {
    return bits(word, 19, 12) | (bits(word, 21, 21) ? mode::kDx10Clamp : 0) |
           (bits(word, 23, 23) ? mode::kIeee : 0);
  }
};

struct Rsrc2 {
  static bool scratch(uint32_t word) { return word & 1; }
  static unsigned user_sgprs(uint32_t word) { return bits(word, 5, 1); }
  static bool group_id(uint32_t word, unsigned axis) { return word >> (7 + axis) & 1; }
  static bool group_info(uint32_t word) { return bits(word, 10, 10); }
  static unsigned item_id_axes(uint32_t word) { return bits(word, 12, 11); }
};

}  // namespace

struct Dispatch::Resident {
  std::unique_ptr<Wave> wave;
  std::shared_ptr<WorkGroup> group;
  unsigned slot = 0;
  bool at_barrier = false;
};

Dispatch::Dispatch(Cores& cores, Memory& memory, Space space, const DispatchSpec& spec)
    : cores_(cores), view_(memory, space), spec_(spec) {}
Dispatch::~Dispatch() = default;

amdgpu_criu::Result<std::unique_ptr<Dispatch>> Dispatch::create(Cores& cores, Memory& memory,
                                                                Space space,
                                                                const DispatchSpec& spec) {
  uint64_t items = 1, groups = 1;
  std::unique_ptr<Dispatch> dispatch(new Dispatch(cores, memory, space, spec));
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (!spec.group_size[axis] || !spec.grid[axis] || spec.group_size[axis] > kMaxGroup) {
      return amdgpu_criu::Error::of(EINVAL, "a grid of {} in groups of {}", spec.grid[axis],
                                    spec.group_size[axis]);
    }
    items *= spec.group_size[axis];
    const uint64_t count =
        (uint64_t{spec.grid[axis]} + spec.group_size[axis] - 1) / spec.group_size[axis];
    dispatch->groups_[axis] = count - std::min<uint64_t>(count, spec.first_group[axis]);
    if (__builtin_mul_overflow(groups, dispatch->groups_[axis], &groups)) {
      return amdgpu_criu::Error::of(EINVAL, "more work-groups than can be counted");
    }
  }
  if (items > kMaxGroup) return amdgpu_criu::Error::of(EINVAL, "a work-group of {} items", items);
  if (spec.lds_bytes > kMaxLds)
    return amdgpu_criu::Error::of(EINVAL, "{} bytes of LDS", spec.lds_bytes);
  if (Rsrc2::user_sgprs(spec.rsrc2) > spec.user_data.size()) {
    return amdgpu_criu::Error::of(EINVAL, "{} user SGPRs", Rsrc2::user_sgprs(spec.rsrc2));
  }
  if (bits(spec.rsrc1, 26, 26)) return amdgpu_criu::Error::of(EINVAL, "FP16_OVFL is not modelled");
  dispatch->group_count_ = groups;
  size_t resident = kMaxResident;
  if (Rsrc2::scratch(spec.rsrc2)) resident = std::min<size_t>(resident, spec.scratch_waves);
  if (resident < dispatch->waves_per_group()) {
    return amdgpu_criu::Error::of(EINVAL, "scratch for {} waves only", spec.scratch_waves);
  }
  dispatch->slots_.resize(resident);
  return dispatch;
}

unsigned Dispatch::waves_per_group() const {
  const auto& size = spec_.group_size;
  return (size[0] * size[1] * size[2] + kLanes - 1) / kLanes;
}

std::array<uint32_t, 3> Dispatch::group_id(uint64_t index) const {
  std::array<uint32_t, 3> id;
  for (unsigned axis = 0; axis < 3; ++axis) {
    id[axis] = static_cast<uint32_t>(index % groups_[axis]) + spec_.first_group[axis];
    index /= groups_[axis];
  }
  return id;
}

// All waves of a group at once, or none.
bool Dispatch::launch_group() {
  const unsigned count = waves_per_group();
  if (!groups_left() || waves_.size() + count > slots_.size()) return false;
  auto group = std::make_shared<WorkGroup>();
  group->id = group_id(next_group_++);
  group->lds.resize((size_t{spec_.lds_bytes} + kLdsGranule - 1) / kLdsGranule * kLdsGranule);
  for (unsigned index = 0; index < count; ++index) {
    auto resident = std::make_unique<Resident>();
    if (spare_.empty()) {
      resident->wave = std::make_unique<Wave>();
    } else {
      resident->wave = std::move(spare_.back());
      spare_.pop_back();
    }
    const auto free = std::ranges::find(slots_, false);
    *free = true;
    resident->slot = static_cast<unsigned>(free - slots_.begin());
    resident->group = group;
    start_wave(*resident->wave, *group, index, resident->slot);
    // A partial group at the end of the grid may have waves without any work-item.
    if (!resident->wave->exec()) {
      *free = false;
      spare_.push_back(std::move(resident->wave));
      continue;
    }
    ++group->waves;
    waves_.push_back(std::move(resident));
  }
  return true;
}

void Dispatch::start_wave(Wave& wave, WorkGroup& group, unsigned index, unsigned slot) {
  const unsigned vgprs = Rsrc1::vgprs(spec_.rsrc1);
  wave.reset(group, view_, vgprs, (bits(spec_.rsrc3, 5, 0) + 1) * 4);
  wave.pc = spec_.code;
  wave.mode = Rsrc1::mode(spec_.rsrc1);
  if (waves_per_group() > 1) wave.status |= status::kInTg;
  wave.apertures = spec_.apertures;
  wave.scoreboard = slot;
  set_vectors(wave, group, index);
  set_scalars(wave, group, index);
}

void Dispatch::set_scalars(Wave& wave, const WorkGroup& group, unsigned index) const {
  unsigned next = Rsrc2::user_sgprs(spec_.rsrc2);
  for (unsigned i = 0; i < next; ++i) wave.set_s(i, spec_.user_data[i]);
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (Rsrc2::group_id(spec_.rsrc2, axis)) wave.set_s(next++, group.id[axis]);
  }
  if (Rsrc2::group_info(spec_.rsrc2)) {
    wave.set_s(next++, (index == 0 ? 1u << 31 : 0) | waves_per_group());
  }
  if (Rsrc2::scratch(spec_.rsrc2)) {
    wave.set_s(next++, static_cast<uint32_t>(wave.scoreboard * spec_.scratch_wave_bytes));
  }
}

// Work-item ids are packed into VGPR 0. Those that the kernel did not ask for are 0.
void Dispatch::set_vectors(Wave& wave, const WorkGroup& group, unsigned index) const {
  const auto& size = spec_.group_size;
  const unsigned axes = Rsrc2::item_id_axes(spec_.rsrc2) + 1;
  uint64_t exec = 0;
  Row& ids = wave.row(operand::kVgpr);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned item = index * kLanes + lane;
    const uint32_t id[3] = {item % size[0], item / size[0] % size[1], item / (size[0] * size[1])};
    bool exists = id[2] < size[2];
    uint32_t packed = 0;
    for (unsigned axis = 0; axis < 3; ++axis) {
      exists = exists && uint64_t{group.id[axis]} * size[axis] + id[axis] < spec_.grid[axis];
      if (axis < axes) packed |= id[axis] << (10 * axis);
    }
    ids.lane[lane] = packed;
    if (exists) exec |= uint64_t{1} << lane;
  }
  wave.set_s64(operand::kExec, exec);
}

// All waves go on together.
void Dispatch::release_barrier(WorkGroup& group) {
  if (group.at_barrier < group.waves) return;
  group.at_barrier = 0;
  for (const auto& resident : waves_) {
    if (resident->group.get() == &group) resident->at_barrier = false;
  }
}

Dispatch::State Dispatch::stopped(const Wave& wave) {
  complaint_ =
      amdgpu_criu::formatted("a wave of work-group ({}, {}, {}) stops at {:#x}: {}",
                             wave.group->id[0], wave.group->id[1], wave.group->id[2], wave.pc,
                             wave.stop == Stop::kFault ? view_.error().message() : wave.complaint);
  return wave.stop == Stop::kFault ? State::kFault : State::kIllegal;
}

Dispatch::State Dispatch::run(unsigned instructions) {
  view_.begin_turn();
  int64_t left = instructions;
  State state = State::kRunning;
  while (left > 0 && state == State::kRunning) {
    while (launch_group()) {
    }
    if (waves_.empty()) {
      state = groups_left() ? State::kRunning : State::kDone;
      if (state == State::kDone) break;
      --left;
      continue;
    }
    if (turn_ >= waves_.size()) turn_ = 0;
    Resident& resident = *waves_[turn_];
    --left;
    if (resident.at_barrier) {
      ++turn_;
      continue;
    }
    Wave& wave = *resident.wave;
    left -= cores_.run(wave, kQuantum);
    const std::shared_ptr<WorkGroup> group = resident.group;
    switch (wave.stop) {
      case Stop::kNone:
      case Stop::kYield:
        wave.stop = Stop::kNone;
        ++turn_;
        break;
      case Stop::kBarrier:
        wave.stop = Stop::kNone;
        resident.at_barrier = true;
        ++group->at_barrier;
        release_barrier(*group);
        ++turn_;
        break;
      case Stop::kEnded:
        slots_[resident.slot] = false;
        spare_.push_back(std::move(resident.wave));
        waves_.erase(waves_.begin() + static_cast<ptrdiff_t>(turn_));
        --group->waves;
        release_barrier(*group);
        break;
      case Stop::kIllegal:
      case Stop::kFault:
        state = stopped(wave);
        break;
    }
  }
  view_.end_turn();
  return state;
}

}  // namespace gpu::shader
