// SPDX-License-Identifier: GPL-2.0
#include "engines/hqd.h"

#include <algorithm>

namespace gpu {

amdgpu_criu::Result<Stream::Ring> HqdState::ring() const {
  const unsigned size = bits(at(mqd::kPqControl), 5, 0);
  if (size < 3 || size > 27) {
    return amdgpu_criu::Error::of(EINVAL, "CP_HQD_PQ_CONTROL {:#x}: ring of 2^{} doublewords",
                                  at(mqd::kPqControl), size + 1);
  }
  return Stream::Ring{.base = pair(mqd::kPqBase) << 8, .dwords = uint64_t{2} << size};
}

amdgpu_criu::Result<HqdState> HqdState::load(Memory& memory, uint64_t mqd,
                                             const ComputeMqdLayout& layout) {
  std::array<uint32_t, mqd::kDwords> all;
  TRY(memory.read(kKernelSpace, mqd, std::as_writable_bytes(std::span(all))));
  HqdState state;
  std::copy_n(all.begin() + mqd::kHqdFirst, state.words.size(), state.words.begin());
  state.layout = layout;
  state.load_place(all);
  state.lost = state.kept().lost(all);
  state.is_older = state.has_place && !all[layout.reserved + mqd::kNonce];
  std::copy_n(all.begin() + layout.reserved + mqd::kGws, state.gws.size(), state.gws.begin());
  state.stride = all[mqd::kStride];
  state.target_xcc = all[mqd::kTargetXcc];
  state.logic_xcc = all[mqd::kLogicXcc];
  Xcc& xcc = state.xccs[0];
  xcc.compute.load(all, layout);
  xcc.save_area = state.pair(mqd::kSaveAreaBase);
  xcc.stack_offset = state.at(mqd::kStackOffset);
  xcc.wave_offset = state.at(mqd::kWaveOffset);
  xcc.persistent = state.at(mqd::kPersistentState);
  return state;
}

// The generations reserve other words.
KeptBits HqdState::kept() const {
  return {layout.reserved == kComputeMqd9.reserved ? MqdKind::kCompute9 : MqdKind::kCompute11,
          layout.reserved + mqd::kNonce};
}

// CP_HQD_IB_* describe the buffer that the ring has called.
void HqdState::load_place(const Mqd& all) {
  const uint32_t control = at(mqd::kIbControl);
  if (control & ib_control::kProcessing) {
    place.depth = 1;
    place.ibs[0] = {.base = pair(mqd::kIbBase) & ~uint64_t{3},
                    .size = control & ib_control::kSize,
                    .next = at(mqd::kIbRptr)};
  }
  SavedPlace::Words words;
  std::copy_n(all.begin() + layout.reserved + mqd::kPlace, words.size(), words.begin());
  has_place = place.unpack(words);
}

// A place that was saved for another read pointer is stale: the MQD was written since.
SavedPlace HqdState::place_at(uint64_t ring_next) const {
  if (has_place && place.ring_next == ring_next) return place;
  SavedPlace other;
  other.ring_next = ring_next;
  other.depth = std::min(place.depth, 1u);
  other.ibs[0] = place.ibs[0];
  return other;
}

void HqdState::save_place(Mqd& all) const {
  const SavedPlace::Ib ib = place.depth ? place.ibs[0] : SavedPlace::Ib{};
  all[mqd::kIbBase] = low32(ib.base);
  all[mqd::kIbBase + 1] = high32(ib.base);
  all[mqd::kIbRptr] = ib.next;
  uint32_t& control = all[mqd::kIbControl];
  control = (control & ~(ib_control::kSize | ib_control::kProcessing)) | ib.size |
            (place.depth ? ib_control::kProcessing : 0);
  std::ranges::copy(place.pack(), all.begin() + layout.reserved + mqd::kPlace);
}

// v11_gfx_mqd: cp_gfx_hqd_wptr. The other words that count are those of a compute MQD; it has none
// for COMPUTE_*.
amdgpu_criu::Result<HqdState> HqdState::load_graphics(Memory& memory, uint64_t mqd,
                                                      const ComputeMqdLayout& layout) {
  constexpr unsigned kGfxWptr = 149;
  HqdState state = TRY(load(memory, mqd, layout));
  state.set_pair(mqd::kPqWptr, state.pair(kGfxWptr));
  state.at(mqd::kAqlControl) = 0;
  // COMPUTE_* as after a reset: all units are enabled.
  ComputeRegisters& compute = state.xccs[0].compute = {};
  for (const unsigned units : {ComputeRegisters::kUnitsSe0, ComputeRegisters::kUnitsSe2})
    std::fill_n(compute.words.begin() + units, 2, ~0u);
  state.has_place = false;
  state.place = {};
  return state;
}

std::string HqdState::difference(const HqdState& other, unsigned xcc) const {
  constexpr std::array kSame = {mqd::kPqBase,    mqd::kPqRptr, mqd::kRptrReport, mqd::kDoorbell,
                                mqd::kStackSize, mqd::kPqWptr, mqd::kPqWptr + 1};
  for (const unsigned word : kSame) {
    if (other.at(word) != at(word))
      return amdgpu_criu::formatted("word {} of the MQD of XCC {} is {:#x}, of XCC 0 {:#x}", word,
                                    xcc, other.at(word), at(word));
  }
  const uint64_t area = pair(mqd::kSaveAreaBase) + uint64_t{xcc} * at(mqd::kSaveAreaSize);
  if (other.pair(mqd::kSaveAreaBase) != area)
    return amdgpu_criu::formatted("XCC {} saves waves to {:#x} instead of {:#x}", xcc,
                                  other.pair(mqd::kSaveAreaBase), area);
  return {};
}

amdgpu_criu::Result<std::string> HqdState::load_xccs(Memory& memory, uint64_t mqd, unsigned count) {
  const bool aql = at(mqd::kAqlControl) != 0;
  std::string found;
  uint64_t seen = 0;
  xccs.clear();
  for (unsigned xcc = 0; xcc < count; ++xcc) {
    const HqdState other = TRY(load(memory, mqd + uint64_t{xcc} * stride, layout));
    if (other.lost && !lost) lost = amdgpu_criu::formatted("of XCC {}: {}", xcc, *other.lost);
    xccs.push_back(other.xccs[0]);
    const uint32_t id = other.logic_xcc;
    xccs.back().logic_id = id;
    std::string fault = difference(other, xcc);
    if (fault.empty() && (aql ? id >= count || seen >> id & 1 : id != 0))
      fault = amdgpu_criu::formatted("XCC {} has the logical id {}", xcc, id);
    if (found.empty()) found = std::move(fault);
    if (id < count) seen |= uint64_t{1} << id;
  }
  return found;
}

amdgpu_criu::Status HqdState::save(Memory& memory, uint64_t mqd) const {
  for (size_t xcc = 0; xcc < xccs.size(); ++xcc)
    TRY(save_one(memory, mqd + xcc * stride, xccs[xcc]));
  return {};
}

amdgpu_criu::Status HqdState::save_one(Memory& memory, uint64_t mqd, const Xcc& xcc) const {
  Mqd all;
  TRY(memory.read(kKernelSpace, mqd, std::as_writable_bytes(std::span(all))));
  all[mqd::kActive] = 0;
  all[mqd::kPqRptr] = at(mqd::kPqRptr);
  all[mqd::kPqWptr] = at(mqd::kPqWptr);
  all[mqd::kPqWptr + 1] = at(mqd::kPqWptr + 1);
  all[mqd::kStackOffset] = xcc.stack_offset;
  all[mqd::kWaveOffset] = xcc.wave_offset;
  all[mqd::kPersistentState] = xcc.persistent;
  xcc.compute.save(all, layout);
  std::ranges::copy(gws, all.begin() + layout.reserved + mqd::kGws);
  save_place(all);
  if (is_user) kept().write(all, nonce_of(place.pack()));
  return memory.write(kKernelSpace, mqd, std::as_bytes(std::span(all)));
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
