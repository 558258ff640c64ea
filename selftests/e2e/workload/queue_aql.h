// SPDX-License-Identifier: GPL-2.0
#pragma once

#include "workload/packets.h"
#include "workload/queue.h"

namespace e2e {

// Its ring is a userptr BO, as in ROCr.
class AqlQueue {
 public:
  static amdgpu_criu::Result<AqlQueue> create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells);
  amdgpu_criu::Status submit(const AqlBarrierPacket& packet);
  const Queue& queue() const { return queue_; }

 private:
  explicit AqlQueue(Queue queue) : queue_(std::move(queue)) {}
  Queue queue_;
};

}  // namespace e2e
