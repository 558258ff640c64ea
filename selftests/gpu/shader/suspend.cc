// SPDX-License-Identifier: GPL-2.0
// SPI's part of saving and restoring waves. The driver's cwsr_trap_handler_gfx9.asm does the rest.
#include <algorithm>

#include "shader/resident.h"

namespace gpu::shader {
namespace {

enum Message : uint32_t { kInterrupt = 1, kSaveWave = 4, kGetDoorbell = 10 };
constexpr uint64_t kBarrierBytes = 4, kMessageBytes = 4;

// Each shader engine has its share of the scratch slots. An XCC of gfx942 has four engines.
struct ScratchSlots {
  unsigned each;

  ScratchSlots(Isa isa, uint32_t waves) {
    const unsigned engines = isa == Isa::kGfx942 ? 4 : 8;
    each = std::max((waves + engines - 1) / engines, 1u);
  }
  RelaunchWave word(unsigned slot) const {
    return {.scoreboard = slot % each, .engine = slot / each};
  }
  unsigned slot(const RelaunchWave& word) const { return word.engine * each + word.scoreboard; }
};

}  // namespace

// The handler has barriers of its own, so an arrival at a barrier of the kernel does not count: the
// wave will arrive again.
void Dispatch::leave_barrier(Resident& resident) {
  if (!resident.at_barrier || resident.wave->privileged()) return;
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
  if (!wave.privileged() || !suspending_) return false;
  if (++asking_ == waves_.size()) hand_out_records();
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
      if (save_wave(wave)) return true;
      break;
    default:
      break;
  }
  wave.pc -= kMessageBytes;
  wave.refuse(amdgpu_criu::formatted("s_sendmsg {} is not modelled", wave.message));
  return false;
}

// Waits until all waves are present. Until then a wave may still have to restore itself from a
// record.
void Dispatch::hand_out_records() {
  const ScratchSlots slots(cores_.isa(), spec_.scratch_waves);
  const bool scratch = spec_.rsrc2 & 1;
  std::vector<uint32_t>& stack = suspended_.stack;
  uint64_t address = spec_.save_area.base;
  for (size_t begin = 0, end = 0; begin < waves_.size(); begin = end) {
    while (end < waves_.size() && waves_[end]->group == waves_[begin]->group) ++end;
    for (size_t i = end; i-- > begin;) {
      const bool first = i == begin;
      waves_[i]->wave->set_s64(operand::kExec, record_for_handler(address, first));
      address += shape_.record_bytes(first) + kRecordGap;
      RelaunchWave word = scratch ? slots.word(waves_[i]->slot) : RelaunchWave{};
      word.scratch = scratch;
      word.first = first;
      word.last = i + 1 == end;
      stack.push_back(word.pack());
    }
  }
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
  uint64_t record = spec_.save_area.base + suspended.bytes;
  std::shared_ptr<WorkGroup> group;
  for (size_t i = kStackPm4Words; i < suspended.stack.size(); ++i) {
    const uint32_t word = suspended.stack[i];
    if (word & RelaunchState::kIsState) {
      if (RelaunchState::pack(shape_) == word) continue;
      return amdgpu_criu::Error::of(EINVAL, "waves of another kind in the control stack: {:#x}",
                                    word);
    }
    if (word & RelaunchState::kIsEvent) continue;
    const RelaunchWave wave = RelaunchWave::unpack(word);
    if (wave.first != !group) {
      return amdgpu_criu::Error::of(EINVAL, "the waves of a group are not contiguous");
    }
    if (wave.first) {
      const auto unit = units_.take_again();
      if (!unit) return amdgpu_criu::Error::of(EINVAL, "no compute unit for saved waves");
      group = std::make_shared<WorkGroup>();
      group->unit = *unit;
      group->lds.resize(shape_.lds_bytes);
      record_bytes_ += shape_.lds_bytes;
    }
    if (waves_.size() == slots_.size())
      return amdgpu_criu::Error::of(EINVAL, "too many saved waves");
    record -= kRecordGap + shape_.record_bytes(wave.first);
    relaunch_wave(wave, record, group);
    if (wave.last) group = nullptr;
  }
  if (group || record != spec_.save_area.base) {
    return amdgpu_criu::Error::of(EINVAL,
                                  "the control stack does not describe the save area: {:#x} left",
                                  record - spec_.save_area.base);
  }
  return {};
}

void Dispatch::relaunch_wave(const RelaunchWave& word, uint64_t record,
                             std::shared_ptr<WorkGroup> group) {
  const ScratchSlots slots(cores_.isa(), spec_.scratch_waves);
  const unsigned slot = word.scratch ? slots.slot(word) : take_slot();
  Wave& wave = *add_wave(std::move(group), std::min<unsigned>(slot, slots_.size() - 1)).wave;
  wave.pc = spec_.trap.restore_entry();
  wave.status |= status::kPriv;
  wave.set_s64(operand::kExec, record_for_handler(record, word.first));
}

}  // namespace gpu::shader
