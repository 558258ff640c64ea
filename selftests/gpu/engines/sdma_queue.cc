// SPDX-License-Identifier: GPL-2.0
#include "engines/sdma_queue.h"

namespace gpu {
namespace {

Space sdma_space(const Context& context, const Queue::Spec& spec, unsigned engine) {
  const Asic& asic = context.asic;
  return {asic.sdma_hub, spec.vmid, asic.sdma_hub == Hub::kMm ? asic.aid_of_sdma(engine) : 0};
}

}  // namespace

SdmaQueue::SdmaQueue(Context& context, const Spec& spec, Setup setup)
    : PacketQueue(context, spec, sdma_space(context, spec, setup.engine), setup.ring),
      setup_(std::move(setup)) {
  stream_.place().ring_next = setup_.rptr / 4;
}

amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> SdmaQueue::create(Context& context,
                                                                  const Spec& spec, Setup setup) {
  std::unique_ptr<SdmaQueue> queue(new SdmaQueue(context, spec, std::move(setup)));
  TRY(queue->stream_.set_wptr(queue->setup_.wptr / 4));
  queue->state_ = State::kRunnable;
  return queue;
}

amdgpu_criu::Result<std::unique_ptr<SdmaQueue>> SdmaQueue::map(Context& context, Spec spec,
                                                               unsigned engine) {
  const SdmaMqdLayout& at = context.asic.sdma_mqd;
  std::array<uint32_t, sdma_mqd::kDwords> words;
  TRY(context.memory.read({Hub::kGfx, 0}, spec.mqd, std::as_writable_bytes(std::span(words))));
  const auto pair = [&](unsigned word) { return join(words[word], words[word + 1]); };
  const unsigned log2_dwords = bits(words[sdma_mqd::kRbCntl], 6, 1);
  if (log2_dwords < 4 || log2_dwords > 28) {
    return amdgpu_criu::Error::of(EINVAL, "SDMA MQD at {:#x}: ring of 2^{} doublewords", spec.mqd,
                                  log2_dwords);
  }
  if (const auto poll = at.wptr_poll_hi; poll && !spec.wptr_poll)
    spec.wptr_poll = join(words[*poll + 1], words[*poll]);
  Setup setup = {
      .engine = engine,
      .ring = {.base = pair(sdma_mqd::kRbBase) << 8, .dwords = uint64_t{1} << log2_dwords},
      .rptr = pair(sdma_mqd::kRbRptr),
      .wptr = pair(sdma_mqd::kRbWptr),
      .rptr_report = join(words[at.rptr_addr_lo], words[at.rptr_addr_hi]),
      .show = {},
      .user = true,
  };
  auto queue = TRY(create(context, spec, std::move(setup)));
  SavedPlace::Words saved;
  std::copy_n(words.begin() + sdma_mqd::kPlace, saved.size(), saved.begin());
  SavedPlace place;
  // A place that was saved for another read pointer is stale: the MQD was written since, and its
  // pointers count.
  if (place.unpack(saved) && place.ring_next == queue->stream_.rptr()) {
    queue->stream_.restore(place);
  }
  return queue;
}

void SdmaQueue::save() {
  if (!spec_.mqd) return;
  const uint64_t rptr = stream_.rptr() * 4;
  const uint64_t wptr = stream_.wptr() * 4;
  const std::array<uint32_t, 4> pointers = {low32(rptr), high32(rptr), low32(wptr), high32(wptr)};
  const SavedPlace::Words place = stream_.place().pack();
  const Space kernel = {Hub::kGfx, 0};
  const auto put = [&](unsigned at, auto& words) {
    return context_.memory.write(kernel, spec_.mqd + at * uint64_t{4},
                                 std::as_bytes(std::span(words)));
  };
  if (!put(sdma_mqd::kRbRptr, pointers).ok() || !put(sdma_mqd::kPlace, place).ok()) {
    context_.report(spec_.name + ": its MQD cannot be written");
  }
}

void SdmaQueue::set_wptr(uint64_t bytes) {
  if (const auto status = stream_.set_wptr(bytes / 4); !status.ok()) {
    stop(status.error());
    return;
  }
  if (setup_.show) setup_.show(stream_.rptr() * 4, stream_.wptr() * 4);
  if (state_ == State::kIdle) state_ = State::kRunnable;
}

void SdmaQueue::doorbell(uint64_t value, unsigned size) {
  const uint64_t wptr = widen(value, size, stream_.wptr() * 4);
  if (state_ != State::kStopped && wptr >= polled_wptr_) set_wptr(wptr);
}

void SdmaQueue::catch_up() {
  if (!spec_.wptr_poll) return;
  const auto value = context_.memory.load<uint64_t>(space(), spec_.wptr_poll);
  if (!value.ok()) return;
  const uint64_t wptr = *value / 4;
  // Only a pointer ahead of the known one, and within the ring, can mean work.
  if (wptr > stream_.wptr() && wptr - stream_.rptr() <= stream_.ring_dwords()) {
    polled_wptr_ = *value;
    set_wptr(*value);
  }
}

void SdmaQueue::report_rptr() {
  const uint64_t rptr = stream_.rptr() * 4;
  if (setup_.show) setup_.show(rptr, stream_.wptr() * 4);
  if (!setup_.rptr_report) return;
  if (const auto status = context_.memory.store<uint64_t>(space(), setup_.rptr_report, rptr);
      !status.ok()) {
    setup_.rptr_report = 0;
  }
}

}  // namespace gpu
