// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "workload/packets.h"
#include "workload/queue.h"

namespace e2e {

class SdmaQueue {
 public:
  static amdgpu_criu::Result<SdmaQueue> create(const Kfd& kfd, const Gpu& gpu,
                                               Doorbells& doorbells);
  // Every submission uses one slot of kSlotDwords, padded with NOPs, so none wraps in the ring.
  amdgpu_criu::Status submit(SdmaStream stream);
  const Queue& queue() const { return queue_; }

  static constexpr size_t kSlotDwords = 64;

 private:
  explicit SdmaQueue(Queue queue) : queue_(std::move(queue)) {}
  Queue queue_;
};

}  // namespace e2e
