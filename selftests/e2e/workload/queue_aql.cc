// SPDX-License-Identifier: GPL-2.0
#include "workload/queue_aql.h"

#include <atomic>

namespace e2e {

using amdgpu_criu::Error;

namespace {
constexpr uint64_t kPackets = 64;
constexpr uint32_t kAqlRingBytes = kPackets * sizeof(AqlBarrierPacket);
}  // namespace

amdgpu_criu::Result<AqlQueue> AqlQueue::create(const Kfd& kfd, const Gpu& gpu,
                                               Doorbells& doorbells) {
  AqlQueue aql(
      TRY(Queue::create(kfd, gpu, doorbells, {QueueType::kAql, kAqlRingBytes, Domain::kUserptr})));
  auto* ring = reinterpret_cast<AqlBarrierPacket*>(aql.queue_.ring().data());
  for (uint64_t i = 0; i < kPackets; ++i) ring[i].header = kAqlInvalidHeader;
  return aql;
}

// AQL counts packets. The header makes a packet valid, so it is written last.
amdgpu_criu::Status AqlQueue::submit(const AqlBarrierPacket& packet) {
  const uint64_t index = queue_.write_pointer();
  if (index - queue_.read_pointer() >= kPackets) return Error::of(ENOBUFS, "the AQL ring is full");
  auto* slot = reinterpret_cast<AqlBarrierPacket*>(queue_.ring().data()) + index % kPackets;
  AqlBarrierPacket body = packet;
  body.header = kAqlInvalidHeader;
  *slot = body;
  std::atomic_ref(slot->header).store(packet.header, std::memory_order_release);
  queue_.ring_doorbell(index + 1, index);
  return {};
}

}  // namespace e2e
