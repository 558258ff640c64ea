// SPDX-License-Identifier: GPL-2.0
#include "engines/compute_queue.h"

namespace gpu {

amdgpu_criu::Result<std::unique_ptr<Queue>> make_compute_queue(Context& context,
                                                               const Queue::Spec& spec,
                                                               Pm4::Setup setup,
                                                               const HqdState& state) {
  const Stream::Ring ring = TRY(state.ring());
  const SavedPlace::Ib& ib = state.place.ibs[0];
  if (state.place.depth && ib.next > ib.size)
    return amdgpu_criu::Error::of(EINVAL, "doubleword {} of an indirect buffer of {}", ib.next,
                                  ib.size);
  if (state.at(mqd::kAqlControl)) {
    auto queue = std::make_unique<AqlQueue>(context, spec, setup, ring, state);
    TRY(queue->start());
    return std::unique_ptr<Queue>(std::move(queue));
  }
  auto queue = std::make_unique<Pm4Queue>(context, spec, setup, ring, state);
  TRY(queue->start());
  return std::unique_ptr<Queue>(std::move(queue));
}

Pm4Queue::Pm4Queue(Context& context, const Spec& spec, Pm4::Setup setup, Stream::Ring ring,
                   const HqdState& state)
    : PacketQueue(context, spec, Space{Hub::kGfx, spec.vmid}, ring),
      pm4_(context, setup, state.xccs[0].compute),
      hqd_(state) {}

// CP_HQD_PQ_RPTR wraps at the end of the ring, the write pointer does not.
amdgpu_criu::Status Pm4Queue::start() {
  const uint64_t wptr = hqd_.pair(mqd::kPqWptr);
  const uint64_t mask = stream_.ring_dwords() - 1;
  const uint64_t behind = (wptr - hqd_.at(mqd::kPqRptr)) & mask;
  const SavedPlace& saved = hqd_.place;
  const bool fits = hqd_.has_place && ((saved.ring_next ^ hqd_.at(mqd::kPqRptr)) & mask) == 0 &&
                    wptr - saved.ring_next <= stream_.ring_dwords();
  stream_.restore(hqd_.place_at(fits ? saved.ring_next : wptr - behind));
  TRY(stream_.set_wptr(wptr));
  TRY(pm4_.launcher().resume(hqd_, space(), spec_.mqd, 0));
  state_ = State::kRunnable;
  return {};
}

amdgpu_criu::Result<Step> Pm4Queue::execute(Budget& budget) {
  if (preempting_ && !pm4_.launcher().has_waves()) return Step::kStarved;
  auto step = pm4_.execute(stream_, budget);
  truncated_ = is_truncated(step) && !preempting_;
  return step;
}

void Pm4Queue::set_wptr(uint64_t dwords) {
  if (const auto status = stream_.set_wptr(dwords); !status.ok()) {
    stop(status.error());
    return;
  }
  if (state_ == State::kIdle) state_ = State::kRunnable;
}

void Pm4Queue::doorbell(uint64_t value, unsigned size) {
  const uint64_t wptr = widen(value, size, stream_.wptr());
  if (state_ != State::kStopped && wptr >= polled_wptr_) set_wptr(wptr);
}

void Pm4Queue::catch_up() {
  if (!spec_.wptr_poll) return;
  const auto value = context_.memory.load<uint64_t>(space(), spec_.wptr_poll);
  if (!value.ok()) return;
  // Only a pointer ahead of the known one, and within the ring, can mean work.
  if (*value > stream_.wptr() && *value - stream_.rptr() <= stream_.ring_dwords()) {
    polled_wptr_ = *value;
    set_wptr(*value);
  }
}

void Pm4Queue::report_rptr() {
  const uint64_t address = hqd_.pair(mqd::kRptrReport) & ~uint64_t{3};
  if (!address) return;
  const auto rptr = static_cast<uint32_t>(stream_.rptr() & (stream_.ring_dwords() - 1));
  if (!context_.memory.store<uint32_t>(space(), address, rptr).ok()) {
    hqd_.set_pair(mqd::kRptrReport, 0);
  }
}

void Pm4Queue::save() {
  if (!spec_.mqd) return;
  hqd_.at(mqd::kPqRptr) = static_cast<uint32_t>(stream_.rptr() & (stream_.ring_dwords() - 1));
  hqd_.set_pair(mqd::kPqWptr, stream_.wptr());
  hqd_.place = stream_.place();
  if (!pm4_.launcher().save(hqd_, space(), spec_.mqd).ok() ||
      !hqd_.save(context_.memory, spec_.mqd).ok()) {
    context_.report(spec_.name + ": its MQD cannot be written");
  }
}

void Pm4Queue::preempt() {
  preempting_ = true;
  pm4_.launcher().preempt();
}

}  // namespace gpu
