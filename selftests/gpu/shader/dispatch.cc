// SPDX-License-Identifier: GPL-2.0
// COMPUTE_PGM_RSRC1..3 and the initial registers of a wave: LLVM's AMDGPUUsage, "Kernel
// Descriptor" and "Initial Kernel Execution State".
#include "shader/dispatch.h"

#include <algorithm>
#include <limits>

#include "shader/resident.h"

namespace gpu::shader {
namespace {

constexpr uint32_t kMaxGroup = 1024;

// Instructions of a wave until the next one has its turn, and of the first turns after a barrier.
constexpr unsigned kTurn = 256, kShortTurn = 16, kShortTurns = 4;

// A lane of gfx11 has two VGPRs in a wave of 32 lanes where it has one in a wave of 64.
unsigned vgprs_of_simd(Isa isa, unsigned lanes) {
  if (!is_gfx11(isa)) return 512;
  return lanes == kLanes ? 768 : 1536;
}

struct Rsrc1 {
  // Registers are allocated in blocks of 8, on gfx11 of waves of 64 lanes in blocks of 4.
  static unsigned vgprs(uint32_t word, Isa isa, unsigned lanes) {
    return (bits(word, 5, 0) + 1) * (is_gfx11(isa) && lanes == kLanes ? 4 : 8);
  }
  static uint32_t mode(uint32_t word) {
    return bits(word, 19, 12) | (bits(word, 21, 21) ? mode::kDx10Clamp : 0) |
           (bits(word, 23, 23) ? mode::kIeee : 0) | (bits(word, 26, 26) ? mode::kFp16Ovfl : 0);
  }
};

struct Rsrc2 {
  static bool scratch(uint32_t word) { return word & 1; }
  static unsigned user_sgprs(uint32_t word) { return bits(word, 5, 1); }
  static bool trap_present(uint32_t word) { return bits(word, 6, 6); }
  static bool group_id(uint32_t word, unsigned axis) { return word >> (7 + axis) & 1; }
  static bool group_info(uint32_t word) { return bits(word, 10, 10); }
  static unsigned item_id_axes(uint32_t word) { return bits(word, 12, 11); }
};

}  // namespace

WaveShape DispatchSpec::shape(Isa isa) const {
  const unsigned vgprs = Rsrc1::vgprs(rsrc1, isa, lanes);
  return {.vgprs = vgprs,
          .accum_offset = is_gfx11(isa) ? vgprs : (bits(rsrc3, 5, 0) + 1) * 4,
          .lds_bytes = (lds_bytes + kLdsGranule - 1) / kLdsGranule * kLdsGranule,
          .vgprs_of_simd = vgprs_of_simd(isa, lanes),
          .isa = isa,
          .lanes = lanes};
}

Dispatch::Dispatch(Cores& cores, Memory& memory, Space space, const DispatchSpec& spec)
    : cores_(cores),
      view_(memory, space),
      vmid_(space.vmid),
      spec_(spec),
      shape_(spec.shape(cores.isa())),
      units_(spec.units, shape_, spec.waves_per_group()) {}
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
  if (bits(spec.rsrc2, 30, 24))
    return amdgpu_criu::Error::of(EINVAL, "exceptions of the ALU are not modelled");
  if (is_gfx11(cores.isa()) && bits(spec.rsrc3, 3, 0))
    return amdgpu_criu::Error::of(EINVAL, "VGPRs that lanes share are not modelled");
  const WaveShape& shape = dispatch->shape_;
  if (shape.accum_offset > shape.vgprs) {
    return amdgpu_criu::Error::of(EINVAL, "accumulation VGPRs from {} of {}", shape.accum_offset,
                                  shape.vgprs);
  }
  dispatch->group_count_ = groups;
  dispatch->next_group_ = spec.share;
  const size_t group = spec.waves_per_group();
  if (!dispatch->units_.group_fits()) {
    return amdgpu_criu::Error::of(EINVAL, "{} waves with {} VGPRs on one unit", group, shape.vgprs);
  }
  size_t resident = spec.max_waves;
  if (Rsrc2::scratch(spec.rsrc2)) resident = std::min<size_t>(resident, spec.scratch_waves);
  if (resident < group) {
    return amdgpu_criu::Error::of(EINVAL, "scratch for {} waves only", spec.scratch_waves);
  }
  if (Rsrc2::scratch(spec.rsrc2) && spec.scratch_waves % spec.engines)
    return amdgpu_criu::Error::of(EINVAL, "scratch for {} waves, which {} engines cannot share",
                                  spec.scratch_waves, spec.engines);
  dispatch->slots_.resize(resident);
  if (dispatch->can_suspend() && dispatch->group_bytes() > spec.save_area.bytes) {
    return amdgpu_criu::Error::of(EINVAL, "a save area of {} bytes", spec.save_area.bytes);
  }
  return dispatch;
}

uint64_t Dispatch::group_bytes() const {
  return spec_.waves_per_group() * (shape_.record_bytes(false) + shape_.gap()) + shape_.lds_bytes;
}

std::array<uint32_t, 3> Dispatch::group_id(uint64_t index) const {
  if (!group_count_) return spec_.first_group;
  std::array<uint32_t, 3> id;
  for (unsigned axis = 0; axis < 3; ++axis) {
    // Behind the last group the last axis counts on.
    const uint64_t within = axis < 2 ? index % groups_[axis] : index;
    id[axis] = static_cast<uint32_t>(within) + spec_.first_group[axis];
    index /= groups_[axis];
  }
  return id;
}

// All waves of a group at once, or none.
bool Dispatch::launch_group() {
  const unsigned count = spec_.waves_per_group();
  if (suspending_ || !saved_.empty() || !groups_left() || waves_.size() + count > slots_.size())
    return false;
  if (can_suspend() && record_bytes_ + group_bytes() > spec_.save_area.bytes) return false;
  const auto unit = units_.take(engines_with_slots(count));
  if (!unit) return false;
  auto group = std::make_shared<WorkGroup>();
  group->id = group_id(next_group_);
  next_group_ += spec_.shares;
  group->unit = *unit;
  group->lds.resize(shape_.lds_bytes);
  record_bytes_ += shape_.lds_bytes;
  for (unsigned index = 0; index < count; ++index) {
    Resident& resident = add_wave(group, take_slot(units_.engine(*unit)));
    start_wave(*resident.wave, *group, index);
    // A partial group at the end of the grid may have waves without any work-item.
    if (!resident.wave->exec()) remove(resident);
  }
  return true;
}

// Without scratch a slot is only a number.
unsigned Dispatch::slots_of_engine() const {
  return static_cast<unsigned>(slots_.size()) / (has_scratch() ? spec_.engines : 1);
}

unsigned Dispatch::take_slot(unsigned engine) const {
  const auto first = slots_.begin() + (has_scratch() ? engine * slots_of_engine() : 0);
  return static_cast<unsigned>(std::find(first, slots_.end(), false) - slots_.begin());
}

// The engines that have scratch for so many more waves.
uint32_t Dispatch::engines_with_slots(unsigned count) const {
  if (!has_scratch() || spec_.engines == 1) return ~0u;
  const unsigned each = slots_of_engine();
  uint32_t engines = 0;
  for (unsigned engine = 0; engine < spec_.engines; ++engine) {
    const auto first = slots_.begin() + ptrdiff_t{engine} * each;
    engines |= uint32_t{std::count(first, first + each, false) >= count} << engine;
  }
  return engines;
}

Dispatch::Resident& Dispatch::add_wave(std::shared_ptr<WorkGroup> group, unsigned slot) {
  auto resident = std::make_unique<Resident>();
  auto& spare = cores_.spare_waves();
  if (spare.empty()) {
    resident->wave = std::make_unique<Wave>();
  } else {
    resident->wave = std::move(spare.back());
    spare.pop_back();
  }
  slots_[slot] = true;
  resident->slot = slot;
  Wave& wave = *resident->wave;
  wave.reset(*group, view_, shape_.vgprs, shape_.accum_offset, cores_.isa(), spec_.lanes);
  if (spec_.waves_per_group() > 1) wave.status |= status::kInTg;
  // The driver of gfx11 leaves traps off, and waves run privileged.
  if (is_gfx11(cores_.isa())) {
    wave.status |= status::kPriv;
  } else if (can_suspend() && Rsrc2::trap_present(spec_.rsrc2)) {
    wave.status |= status::kTrapEn;
  }
  wave.apertures = spec_.apertures;
  wave.trap = spec_.trap;
  wave.scoreboard = slot;
  wave.xcc = spec_.xcc;
  wave.doorbell_id = spec_.doorbell_id;
  wave.hw_id = units_.hw_id(group->unit) | (group->waves & 3) << 4 | (vmid_ & 15) << 20;
  wave.hw_id |= resident->id.emplace(cores_.wave_ids(spec_.xcc), wave.hw_id).number();
  ++group->waves;
  resident->group = std::move(group);
  record_bytes_ += shape_.record_bytes(false) + shape_.gap();
  return *waves_.emplace_back(std::move(resident));
}

void Dispatch::remove(Resident& resident) {
  const std::shared_ptr<WorkGroup> group = resident.group;
  slots_[resident.slot] = false;
  cores_.spare_waves().push_back(std::move(resident.wave));
  std::erase_if(waves_, [&](const auto& one) { return one.get() == &resident; });
  record_bytes_ -= shape_.record_bytes(false) + shape_.gap();
  if (--group->waves == 0) {
    record_bytes_ -= shape_.lds_bytes;
    units_.give_back(group->unit);
  }
  release_barrier(*group);
}

void Dispatch::start_wave(Wave& wave, WorkGroup& group, unsigned index) const {
  wave.pc = spec_.code;
  wave.mode = Rsrc1::mode(spec_.rsrc1);
  set_vectors(wave, group, index);
  set_scalars(wave, group, index);
  if (spec_.trap.place_in_ttmps || has_architected_scratch(cores_.isa()))
    set_place(wave, group, index);
}

void Dispatch::set_scalars(Wave& wave, const WorkGroup& group, unsigned index) const {
  unsigned next = Rsrc2::user_sgprs(spec_.rsrc2);
  for (unsigned i = 0; i < next; ++i) wave.set_s(i, spec_.user_data[i]);
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (Rsrc2::group_id(spec_.rsrc2, axis)) wave.set_s(next++, group.id[axis]);
  }
  if (Rsrc2::group_info(spec_.rsrc2)) {
    const uint32_t number = is_gfx11(cores_.isa()) ? index << 20 : 0;
    wave.set_s(next++, (index == 0 ? 1u << 31 : 0) | number | spec_.waves_per_group());
  }
  if (Rsrc2::scratch(spec_.rsrc2)) {
    const uint64_t offset = wave.scoreboard * spec_.scratch_wave_bytes;
    if (has_architected_scratch(cores_.isa())) {
      wave.set_flat_scratch(spec_.scratch_base + offset);
    } else {
      wave.set_s(next++, static_cast<uint32_t>(offset));
    }
  }
}

// As ROCr's second-level trap handler and the debugger expect it.
void Dispatch::set_place(Wave& wave, const WorkGroup& group, unsigned index) const {
  constexpr uint32_t kNoScratch = 1 << 6;
  for (unsigned axis = 0; axis < 3; ++axis) wave.set_s(operand::kTtmp + 8 + axis, group.id[axis]);
  if (cores_.isa() == Isa::kGfx942)
    return wave.set_s(operand::kTtmp + 11, index | bits(spec_.packet_index, 24, 0) << 6);
  wave.set_s(operand::kTtmp + 6, bits(spec_.packet_index, 24, 0));
  wave.set_s(operand::kTtmp + 11, index | (Rsrc2::scratch(spec_.rsrc2) ? 0 : kNoScratch));
}

// Work-item ids are packed into VGPR 0. Ids that the kernel does not request are 0.
void Dispatch::set_vectors(Wave& wave, const WorkGroup& group, unsigned index) const {
  const auto& size = spec_.group_size;
  const unsigned axes = Rsrc2::item_id_axes(spec_.rsrc2) + 1;
  uint64_t exec = 0;
  Row& ids = wave.row(operand::kVgpr);
  for (unsigned lane = 0; lane < spec_.lanes; ++lane) {
    const unsigned item = index * spec_.lanes + lane;
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
  wave.set_mask(operand::kExec, exec);
}

// All waves continue together, and side by side for a while, as on hardware: kernels may count on
// it. That of rocSOLVER's POTF2 reads a word after a barrier, which the first wave writes a square
// root later.
void Dispatch::release_barrier(WorkGroup& group) {
  if (group.at_barrier < group.waves) return;
  group.at_barrier = 0;
  for (const auto& resident : waves_) {
    if (resident->group.get() != &group) continue;
    resident->at_barrier = false;
    resident->short_turns = kShortTurns;
  }
}

void Dispatch::describe(const Wave& wave) {
  const bool faulted = wave.stop == Stop::kFault;
  complaint_ = amdgpu_criu::formatted("a wave stops at {:#x}: {}", wave.pc,
                                      faulted ? view_.error().message() : wave.complaint);
}

// An exception of the wave. Its trap handler handles it, unless there is none or the wave is in it.
Dispatch::State Dispatch::stopped(Wave& wave) {
  const bool violates = wave.stop == Stop::kFault && view_.is_violation();
  const Stop why = violates ? Stop::kViolation : wave.stop;
  describe(wave);
  wave.lanes_left = 0;
  if (!wave.can_trap()) return why == Stop::kFault ? State::kFault : State::kIllegal;
  if (why == Stop::kIllegal) {
    cores_.complain(wave.complaint, complaint_);
    wave.trapsts |= trapsts::kIllegalInstruction;
  } else {
    wave.trapsts |= trapsts::kMemoryViolation | (why == Stop::kFault ? trapsts::kXnackError : 0);
  }
  wave.stop = Stop::kNone;
  wave.complaint.clear();
  wave.enter_trap(0);
  return State::kRunning;
}

// A trap that is pending is entered before the next instruction.
bool Dispatch::can_run(Resident& resident) {
  Wave& wave = *resident.wave;
  if (wave.trapsts & trapsts::kSaveContext && !wave.in_handler) wave.enter_trap(0);
  const bool waits = resident.at_barrier || resident.at_gws || resident.awaits_page;
  return !waits && !resident.awaits_record && !wave.halted();
}

// The instruction is repeated for the lanes that it has not visited. A trap handler repeats the
// whole instruction: XNACK_MASK is that of the wave.
Dispatch::State Dispatch::await_page(Resident& resident) {
  Wave& wave = *resident.wave;
  wave.stop = Stop::kNone;
  if (!wave.in_handler) wave.set_s64(operand::kXnackMask, wave.lanes_left);
  wave.lanes_left = 0;
  resident.awaits_page = true;
  ++turn_;
  return State::kRunning;
}

// Handles the end of the wave's turn. May remove the wave.
Dispatch::State Dispatch::after(Resident& resident) {
  Wave& wave = *resident.wave;
  const Stop stop = wave.stop;
  if (awaits_page(wave) && !is_gfx11(cores_.isa())) return await_page(resident);
  if (stop >= Stop::kIllegal) return stopped(wave);
  if (stop == Stop::kEnded || stop == Stop::kSaved) {
    remove(resident);
    if (stop == Stop::kEnded && suspending_) hand_out_records();
    return State::kRunning;
  }
  wave.stop = Stop::kNone;
  if (stop == Stop::kBarrier) {
    resident.at_barrier = true;
    ++resident.group->at_barrier;
    release_barrier(*resident.group);
  }
  if (stop == Stop::kMessage && !take_message(resident)) return stopped(wave);
  if (stop == Stop::kGws && !take_gws(resident)) return stopped(wave);
  if (!rest_of_turn_) ++turn_;
  return State::kRunning;
}

// Groups that are left then have no unit to run on.
Dispatch::State Dispatch::without_waves() {
  if (suspending_) hand_out_records();
  if (suspending_ && (groups_left() || !suspended_.stack.empty())) return State::kSuspended;
  return groups_left() || !saved_.empty() ? State::kHalted : State::kDone;
}

// How many instructions the wave executes until the next one has its turn.
unsigned Dispatch::begin_turn(Resident& resident) {
  if (!resident.short_turns) return kTurn;
  --resident.short_turns;
  return kShortTurn;
}

Dispatch::State Dispatch::run(unsigned instructions) {
  view_.begin_turn();
  for (const auto& resident : waves_) resident->awaits_page = false;
  // More in each turn, so that a preemption may come in between and does not have to.
  ++relaunches_;
  for (unsigned i = 0; i < relaunches_ && relaunch_group(); ++i) {
  }
  int64_t left = instructions;
  bool idle = true;
  State state = State::kRunning;
  while (left > 0 && state == State::kRunning) {
    while (launch_group()) {
    }
    if (waves_.empty()) {
      state = without_waves();
      break;
    }
    if (turn_ >= waves_.size()) turn_ = 0;
    Resident& resident = *waves_[turn_];
    if (!can_run(resident)) {
      --left;
      ++turn_;
      rest_of_turn_ = 0;
      continue;
    }
    if (!rest_of_turn_) rest_of_turn_ = begin_turn(resident);
    const auto most = static_cast<unsigned>(std::min<int64_t>(left, rest_of_turn_));
    const unsigned ran = cores_.run(*resident.wave, most);
    left -= std::max(1u, ran);
    rest_of_turn_ = resident.wave->stop == Stop::kNone ? rest_of_turn_ - ran : 0;
    idle = idle && ran <= 1 && awaits_page(*resident.wave);
    state = after(resident);
  }
  view_.end_turn();
  const bool halted = idle && !waves_.empty() &&
                      std::ranges::none_of(waves_, [&](const auto& one) { return can_run(*one); });
  return halted ? State::kHalted : state;
}

}  // namespace gpu::shader
