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
  Mqd words;
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
  if (const auto lost = queue->kept().lost(words)) context.report(spec.name + ": " + *lost);
  queue->load_place(words);
  queue->is_older_ = words[sdma_mqd::kOldPlace] == SavedPlace::kMagic;
  return queue;
}

KeptBits SdmaQueue::kept() const {
  const bool is_v11 = context_.asic.scheduler == Scheduler::kMes;
  return {is_v11 ? MqdKind::kSdma11 : MqdKind::kSdma9, sdma_mqd::kNonce};
}

// The place inside of an indirect buffer and of a packet. The last word of MIDCMD_DATA, too, has to
// be the saved one.
void SdmaQueue::load_place(const Mqd& mqd) {
  using namespace sdma_mqd;
  const SdmaMqdLayout& at = context_.asic.sdma_mqd;
  const auto ib = std::span(mqd).subspan(at.ib_cntl);
  SavedPlace& place = stream_.place();
  place.skip = ib[kSkipCntl];
  const SavedPlace::Ib buffer = {
      .base = join(ib[kIbBase], ib[kIbBaseHi]), .size = ib[kIbSize], .next = ib[kIbRptr] / 4};
  if (ib[kIbCntl] & kIbEnable && buffer.next <= buffer.size) {
    place.depth = 1;
    place.ibs[0] = buffer;
  }
  if (!(mqd[at.midcmd_cntl] & kDataValid)) return;
  const auto data = std::span(mqd).subspan(at.midcmd, at.midcmd_cntl - at.midcmd);
  if (data.back() == nonce_of(data.first(2))) {
    place.progress = join(data[0], data[1]);
  } else {
    context_.report(spec_.name + ": saved MQD: MIDCMD_DATA is not of the packet");
  }
}

void SdmaQueue::save_place(Mqd& mqd) const {
  using namespace sdma_mqd;
  const SdmaMqdLayout& at = context_.asic.sdma_mqd;
  const auto ib = std::span(mqd).subspan(at.ib_cntl);
  const SavedPlace& place = stream_.place();
  const SavedPlace::Ib buffer = place.depth ? place.ibs[0] : SavedPlace::Ib{};
  ib[kIbCntl] = (ib[kIbCntl] & ~kIbEnable) | (place.depth ? kIbEnable : 0);
  ib[kIbRptr] = buffer.next * 4;
  ib[kIbBase] = low32(buffer.base);
  ib[kIbBaseHi] = high32(buffer.base);
  ib[kIbSize] = buffer.size;
  ib[kSkipCntl] = place.skip;
  const auto data = std::span(mqd).subspan(at.midcmd, at.midcmd_cntl - at.midcmd);
  data[0] = low32(place.progress);
  data[1] = high32(place.progress);
  data.back() = place.progress ? nonce_of(data.first(2)) : 0;
  mqd[at.midcmd_cntl] = place.progress ? kDataValid : 0;
}

void SdmaQueue::save() {
  if (!spec_.mqd) return;
  if (!write_mqd().ok()) context_.report(spec_.name + ": its MQD cannot be written");
}

amdgpu_criu::Status SdmaQueue::write_mqd() {
  const uint64_t rptr = stream_.rptr() * 4;
  const uint64_t wptr = stream_.wptr() * 4;
  const std::array<uint32_t, 4> pointers = {low32(rptr), high32(rptr), low32(wptr), high32(wptr)};
  Mqd mqd;
  TRY(context_.memory.read(kKernelSpace, spec_.mqd, std::as_writable_bytes(std::span(mqd))));
  std::ranges::copy(pointers, mqd.begin() + sdma_mqd::kRbRptr);
  save_place(mqd);
  if (!is_older_) kept().write(mqd, nonce_of(pointers));
  return context_.memory.write(kKernelSpace, spec_.mqd, std::as_bytes(std::span(mqd)));
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
