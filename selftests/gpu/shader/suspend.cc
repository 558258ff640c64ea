// SPDX-License-Identifier: GPL-2.0
// SPI's part of saving and restoring waves. The driver's cwsr_trap_handler_gfx9.asm and _gfx10.asm
// do the rest.
#include <algorithm>

#include "shader/resident.h"

namespace gpu::shader {
namespace {

enum Message : uint32_t {
  kInterrupt = 1,
  kSaveWave = 4,
  kGetDoorbell = 10,
  kReturnSaveWave = 132,  // gfx11
};
constexpr uint64_t kBarrierBytes = 4, kMessageBytes = 4;

}  // namespace

// The handler has barriers of its own, so an arrival at a barrier of the kernel does not count: the
// wave will arrive again.
void Dispatch::leave_barrier(Resident& resident) {
  if (!resident.at_barrier || resident.wave->in_handler) return;
  resident.at_barrier = false;
  --resident.group->at_barrier;
  resident.wave->pc -= kBarrierBytes;
}

void Dispatch::suspend() {
  if (suspending_) return;
  suspending_ = true;
  for (const auto& resident : waves_) {
    resident->wave->trapsts |= trapsts::kSaveContext;
    leave_barrier(*resident);
    leave_gws(*resident);
  }
  suspended_.restart = group_id(std::min(next_group_, group_count_));
}

bool Dispatch::save_wave(Wave& wave) {
  if (!wave.in_handler || !suspending_) return false;
  ++asking_;
  hand_out_records();
  return true;
}

// False: it refuses the wave. The answer to a message is a new EXEC.
bool Dispatch::take_message(Resident& resident) {
  Wave& wave = *resident.wave;
  switch (wave.message) {
    case kInterrupt:
      interrupts_.push_back({.data = wave.s(operand::kM0), .privileged = wave.privileged()});
      return true;
    case kGetDoorbell:
      wave.set_s64(operand::kExec, spec_.doorbell_id);
      return true;
    case kSaveWave:
    case kReturnSaveWave:
      resident.awaits_record = wave.message == kReturnSaveWave;
      if (save_wave(wave)) return true;
      break;
    default:
      break;
  }
  wave.pc -= kMessageBytes;
  wave.refuse(amdgpu_criu::formatted("s_sendmsg {} is not modelled", wave.message));
  return false;
}

RelaunchWave Dispatch::relaunch_word(const Resident& resident) const {
  RelaunchWave word = {.engine = units_.engine(resident.group->unit), .scratch = has_scratch()};
  if (word.scratch) word.scoreboard = resident.slot % slots_of_engine();
  return word;
}

// Waits until all waves are present, or have ended. Until then a wave may still have to restore
// itself from a record. The words and records of waves that were not relaunched stay what and where
// they are, below the new ones.
void Dispatch::hand_out_records() {
  if (asking_ != waves_.size() || (!asking_ && saved_.empty()) || !suspended_.stack.empty()) return;
  std::vector<uint32_t>& stack = suspended_.stack;
  for (const Saved& group : saved_)
    for (size_t i = group.waves.size(); i-- > 0;) stack.push_back(group.waves[i].pack(shape_.isa));
  uint64_t address = saved_.empty() ? spec_.save_area.base : saved_.back().end;
  suspended_.incomplete = !saved_.empty();
  for (size_t begin = 0, end = 0; begin < waves_.size(); begin = end) {
    while (end < waves_.size() && waves_[end]->group == waves_[begin]->group) ++end;
    for (size_t i = end; i-- > begin;) {
      const bool first = i == begin;
      waves_[i]->wave->set_s64(operand::kExec, record_for_handler(address, first));
      waves_[i]->awaits_record = false;
      address += shape_.record_bytes(first) + shape_.gap();
      RelaunchWave word = relaunch_word(*waves_[i]);
      word.first = first;
      word.last = i + 1 == end;
      stack.push_back(word.pack(shape_.isa));
    }
  }
  if (is_gfx11(shape_.isa)) stack.push_back(0);  // COMPUTE_RELAUNCH2
  stack.push_back(RelaunchState::pack(shape_));
  const auto words = static_cast<uint32_t>(stack.size());
  stack.push_back(words);
  stack.push_back(3u << 30 | pm4::kNop << 8);
  std::ranges::reverse(stack);
  suspended_.bytes = address - spec_.save_area.base;
}

amdgpu_criu::Result<std::unique_ptr<Dispatch>> Dispatch::resume(Cores& cores, Memory& memory,
                                                                Space space,
                                                                const DispatchSpec& spec,
                                                                const Suspended& suspended) {
  auto dispatch = TRY(create(cores, memory, space, spec));
  TRY(dispatch->continue_at(suspended.restart));
  TRY(dispatch->relaunch(suspended));
  return dispatch;
}

amdgpu_criu::Status Dispatch::continue_at(const std::array<uint32_t, 3>& group) {
  for (unsigned axis = 0; axis < 3; ++axis) {
    const uint64_t end = spec_.first_group[axis] + groups_[axis];
    if (group[axis] < spec_.first_group[axis] || group[axis] > end) {
      return amdgpu_criu::Error::of(EINVAL, "no work-group {} of {} to restart at", group[axis],
                                    end);
    }
  }
  const auto offset = [&](unsigned axis) {
    return uint64_t{group[axis]} - spec_.first_group[axis];
  };
  next_group_ = (offset(2) * groups_[1] + offset(1)) * groups_[0] + offset(0);
  if (groups_left() && next_group_ % spec_.shares != spec_.share)
    return amdgpu_criu::Error::of(EINVAL, "work-group {} is not the turn of XCC {} of {}",
                                  next_group_, spec_.share, spec_.shares);
  return {};
}

// The records are read from the last one down.
amdgpu_criu::Status Dispatch::relaunch(const Suspended& suspended) {
  if (suspended.stack.empty()) return {};
  if (!can_suspend()) return amdgpu_criu::Error::of(EINVAL, "no trap handler restores the waves");
  if (spec_.units.empty()) return amdgpu_criu::Error::of(EINVAL, "no compute unit for saved waves");
  uint64_t record = spec_.save_area.base + suspended.bytes;
  bool inside = false;
  size_t waves = 0;
  for (size_t i = kStackPm4Words; i < suspended.stack.size(); ++i) {
    const uint32_t word = suspended.stack[i];
    if (word & RelaunchState::kIsState) {
      if (is_gfx11(shape_.isa)) ++i;  // COMPUTE_RELAUNCH2
      if (RelaunchState::pack(shape_) == word) continue;
      return amdgpu_criu::Error::of(EINVAL, "waves of another kind in the control stack: {:#x}",
                                    word);
    }
    if (word & RelaunchState::kIsEvent) continue;
    const RelaunchWave wave = RelaunchWave::unpack(word, shape_.isa);
    if (wave.first == inside)
      return amdgpu_criu::Error::of(EINVAL, "the waves of a group are not contiguous");
    if (waves++ == slots_.size()) return amdgpu_criu::Error::of(EINVAL, "too many saved waves");
    if (wave.engine >= spec_.engines || wave.scratch != has_scratch() ||
        (wave.scratch && wave.scoreboard >= slots_of_engine()))
      return amdgpu_criu::Error::of(EINVAL, "saved waves of another place: {:#x}", word);
    if (wave.first) saved_.push_back({.waves = {}, .end = record});
    saved_.back().waves.push_back(wave);
    record -= shape_.gap() + shape_.record_bytes(wave.first);
    inside = !wave.last;
  }
  if (inside || record != spec_.save_area.base) {
    return amdgpu_criu::Error::of(EINVAL,
                                  "the control stack does not describe the save area: {:#x} left",
                                  record - spec_.save_area.base);
  }
  std::ranges::reverse(saved_);
  record_bytes_ = suspended.bytes;
  return {};
}

// False: there is none, or its engine has no room before other groups end.
bool Dispatch::relaunch_group() {
  if (suspending_ || saved_.empty()) return false;
  const Saved& saved = saved_.back();
  const unsigned engine = saved.waves[0].engine;
  for (const RelaunchWave& word : saved.waves)
    if (word.scratch && slots_[engine * slots_of_engine() + word.scoreboard]) return false;
  const auto unit = units_.take(1u << engine);
  if (!unit) return false;
  auto group = std::make_shared<WorkGroup>();
  group->unit = *unit;
  group->lds.resize(shape_.lds_bytes);
  uint64_t record = saved.end;
  for (const RelaunchWave& word : saved.waves) {
    const uint64_t bytes = shape_.gap() + shape_.record_bytes(word.first);
    record -= bytes;
    record_bytes_ -= shape_.gap() + shape_.record_bytes(false);  // which add_wave() counts
    const unsigned slot =
        word.scratch ? engine * slots_of_engine() + word.scoreboard : take_slot(engine);
    Wave& wave = *add_wave(group, slot).wave;
    wave.enter_handler(spec_.trap.restore_entry());
    wave.set_s64(operand::kExec, record_for_handler(record, word.first));
  }
  saved_.pop_back();
  return true;
}

}  // namespace gpu::shader
