// SPDX-License-Identifier: GPL-2.0
#include "engines/hqd.h"

namespace gpu {

amdgpu_criu::Result<Stream::Ring> HqdState::ring() const {
  const unsigned size = bits(at(mqd::kPqControl), 5, 0);
  if (size < 3 || size > 27) {
    return amdgpu_criu::Error::of(EINVAL, "CP_HQD_PQ_CONTROL {:#x}: ring of 2^{} doublewords",
                                  at(mqd::kPqControl), size + 1);
  }
  return Stream::Ring{.base = pair(mqd::kPqBase) << 8, .dwords = uint64_t{2} << size};
}

amdgpu_criu::Result<HqdState> HqdState::load(Memory& memory, uint64_t mqd, unsigned reserved) {
  std::array<uint32_t, mqd::kDwords> all;
  TRY(memory.read(kKernelSpace, mqd, std::as_writable_bytes(std::span(all))));
  HqdState state;
  std::copy_n(all.begin() + mqd::kHqdFirst, state.words.size(), state.words.begin());
  SavedPlace::Words place;
  std::copy_n(all.begin() + reserved + mqd::kPlace, place.size(), place.begin());
  state.has_place = state.place.unpack(place);
  state.compute.load(all, reserved);
  std::copy_n(all.begin() + reserved + mqd::kGws, state.gws.size(), state.gws.begin());
  state.reserved = reserved;
  state.stride = all[mqd::kStride];
  state.logic_xcc = all[mqd::kLogicXcc];
  return state;
}

// v11_gfx_mqd: cp_gfx_hqd_wptr. The other words that count are those of a compute MQD.
amdgpu_criu::Result<HqdState> HqdState::load_graphics(Memory& memory, uint64_t mqd,
                                                      unsigned reserved) {
  constexpr unsigned kGfxWptr = 149;
  HqdState state = TRY(load(memory, mqd, reserved));
  state.set_pair(mqd::kPqWptr, state.pair(kGfxWptr));
  state.at(mqd::kAqlControl) = 0;
  state.has_place = false;
  return state;
}

amdgpu_criu::Result<std::string> HqdState::check_copies(Memory& memory, uint64_t mqd) const {
  constexpr std::array kSame = {mqd::kPqBase,    mqd::kPqRptr, mqd::kRptrReport, mqd::kDoorbell,
                                mqd::kStackSize, mqd::kPqWptr, mqd::kPqWptr + 1};
  const bool aql = at(mqd::kAqlControl) != 0;
  uint64_t seen = 0;
  for (unsigned copy = 0; copy < copies; ++copy) {
    const HqdState other = TRY(load(memory, mqd + uint64_t{copy} * stride, reserved));
    for (const unsigned word : kSame) {
      if (other.at(word) != at(word))
        return amdgpu_criu::formatted("word {} of the MQD of XCC {} is {:#x}, of XCC 0 {:#x}", word,
                                      copy, other.at(word), at(word));
    }
    const uint64_t area = pair(mqd::kSaveAreaBase) + uint64_t{copy} * at(mqd::kSaveAreaSize);
    if (other.pair(mqd::kSaveAreaBase) != area)
      return amdgpu_criu::formatted("XCC {} saves waves to {:#x} instead of {:#x}", copy,
                                    other.pair(mqd::kSaveAreaBase), area);
    const uint32_t id = other.logic_xcc;
    if (aql ? id >= copies || seen >> id & 1 : id != 0)
      return amdgpu_criu::formatted("XCC {} has the logical id {}", copy, id);
    seen |= uint64_t{1} << id;
  }
  return std::string();
}

amdgpu_criu::Status HqdState::save(Memory& memory, uint64_t mqd) const {
  for (unsigned copy = 0; copy < copies; ++copy)
    TRY(save_copy(memory, mqd + uint64_t{copy} * stride));
  return {};
}

amdgpu_criu::Status HqdState::save_copy(Memory& memory, uint64_t mqd) const {
  const auto put = [&](unsigned index, std::span<const uint32_t> values) {
    return memory.write(kKernelSpace, mqd + index * uint64_t{4}, std::as_bytes(values));
  };
  const uint32_t inactive = 0;
  TRY(put(mqd::kActive, std::span(&inactive, 1)));
  TRY(put(mqd::kPqRptr, std::span(words).subspan(mqd::kPqRptr - mqd::kHqdFirst, 1)));
  TRY(put(mqd::kPqWptr, std::span(words).subspan(mqd::kPqWptr - mqd::kHqdFirst, 2)));
  TRY(put(mqd::kStackOffset, std::span(words).subspan(mqd::kStackOffset - mqd::kHqdFirst, 1)));
  TRY(put(mqd::kWaveOffset, std::span(words).subspan(mqd::kWaveOffset - mqd::kHqdFirst, 1)));
  const std::span registers(compute.words);
  TRY(put(mqd::kCompute, registers.first(ComputeRegisters::kRelaunch + 1)));
  TRY(put(mqd::kUserData, registers.subspan(ComputeRegisters::kUserData0)));
  TRY(put(reserved + mqd::kRsrc3, registers.subspan(ComputeRegisters::kRsrc3, 1)));
  TRY(put(reserved + mqd::kGws, gws));
  return put(reserved + mqd::kPlace, place.pack());
}

std::string queue_name(std::string_view kind, HqdSlot slot) {
  return amdgpu_criu::formatted("{} {}.{}.{}", kind, slot.me, slot.pipe, slot.queue);
}

HqdSlot HqdBank::selected() const {
  const uint32_t select = registers_.read(at_.select);
  return {.me = bits(select, 3, 2), .pipe = bits(select, 1, 0), .queue = bits(select, 10, 8)};
}

uint32_t HqdBank::read(uint32_t dword) {
  const HqdSlot slot = selected();
  const std::lock_guard lock(mutex_);
  return slots_[index(slot)][dword - at_.hqd];
}

void HqdBank::write(uint32_t dword, uint32_t value) {
  const HqdSlot slot = selected();
  const unsigned word = dword - at_.hqd;
  bool was_active;
  {
    const std::lock_guard lock(mutex_);
    auto& words = slots_[index(slot)];
    was_active = words[mqd::kActive - mqd::kHqdFirst] & 1;
    words[word] = value;
  }
  if (word == mqd::kActive - mqd::kHqdFirst && was_active != (value & 1)) {
    value & 1 ? events_.activate(slot) : events_.dequeue(slot);
  }
  if (word == mqd::kDequeueRequest - mqd::kHqdFirst && value && was_active) events_.dequeue(slot);
}

HqdState HqdBank::state(HqdSlot slot) const {
  const std::lock_guard lock(mutex_);
  HqdState state;
  state.words = slots_[index(slot)];
  return state;
}

void HqdBank::show(HqdSlot slot, const HqdState& state) {
  const std::lock_guard lock(mutex_);
  slots_[index(slot)] = state.words;
}

void HqdBank::deactivate(HqdSlot slot) {
  const std::lock_guard lock(mutex_);
  slots_[index(slot)][mqd::kActive - mqd::kHqdFirst] = 0;
  slots_[index(slot)][mqd::kDequeueRequest - mqd::kHqdFirst] = 0;
}

void HqdBank::reset() {
  const std::lock_guard lock(mutex_);
  slots_ = {};
}

}  // namespace gpu
