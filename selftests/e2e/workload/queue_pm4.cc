// SPDX-License-Identifier: GPL-2.0
#include "workload/queue_pm4.h"

#include <cstring>

namespace e2e {

using amdgpu_criu::Error;

namespace {
constexpr uint32_t kRingBytes = 8192;
constexpr uint64_t kRingDwords = kRingBytes / 4;
}  // namespace

amdgpu_criu::Result<Pm4Queue> Pm4Queue::create(const Kfd& kfd, const Gpu& gpu,
                                               Doorbells& doorbells) {
  return Pm4Queue(TRY(Queue::create(kfd, gpu, doorbells, {QueueType::kPm4, kRingBytes})));
}

amdgpu_criu::Status Pm4Queue::submit(Pm4Stream stream) {
  const Dwords& dwords = stream.pad(kSlotDwords).dwords();
  if (dwords.size() != kSlotDwords)
    return Error::of(EMSGSIZE, "PM4 submission of {} dwords", dwords.size());
  const uint64_t start = queue_.write_pointer();
  // PM4 queues report the read pointer modulo the ring.
  const uint64_t used = (start - queue_.read_pointer()) % kRingDwords;
  if (used + kSlotDwords >= kRingDwords) return Error::of(ENOBUFS, "the PM4 ring is full");
  memcpy(&queue_.ring()[start % kRingDwords * 4], dwords.data(), kSlotDwords * 4);
  queue_.ring_doorbell(start + kSlotDwords, start + kSlotDwords);
  return {};
}

}  // namespace e2e
