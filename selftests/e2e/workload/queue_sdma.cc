// SPDX-License-Identifier: GPL-2.0
#include "workload/queue_sdma.h"

#include <cstring>

namespace e2e {

using amdgpu_criu::Error;

namespace {
constexpr uint32_t kSdmaRingBytes = 8192;
constexpr uint64_t kSlotBytes = SdmaQueue::kSlotDwords * 4;
}  // namespace

amdgpu_criu::Result<SdmaQueue> SdmaQueue::create(const Kfd& kfd, const Gpu& gpu,
                                                 Doorbells& doorbells) {
  return SdmaQueue(TRY(Queue::create(kfd, gpu, doorbells, {QueueType::kSdma, kSdmaRingBytes})));
}

// SDMA counts its pointers in bytes.
amdgpu_criu::Status SdmaQueue::submit(SdmaStream stream) {
  const Dwords& dwords = stream.pad(kSlotDwords).dwords();
  if (dwords.size() != kSlotDwords)
    return Error::of(EMSGSIZE, "SDMA submission of {} dwords", dwords.size());
  const uint64_t start = queue_.write_pointer();
  const uint64_t used = (start - queue_.read_pointer()) % kSdmaRingBytes;
  if (used + kSlotBytes >= kSdmaRingBytes) return Error::of(ENOBUFS, "the SDMA ring is full");
  memcpy(&queue_.ring()[start % kSdmaRingBytes], dwords.data(), kSlotBytes);
  queue_.ring_doorbell(start + kSlotBytes, start + kSlotBytes);
  return {};
}

}  // namespace e2e
