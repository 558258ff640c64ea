// SPDX-License-Identifier: GPL-2.0
// User queues: rings that the process fills and starts by a doorbell, without an ioctl.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "render/device.h"
#include "render/stepper.h"

namespace e2e {

class UserQueue {
 public:
  // ip: AMDGPU_HW_IP_COMPUTE or _DMA. The driver writes page tables in order, and user queues do
  // not wait for them, but a job of the copier does.
  static amdgpu_criu::Result<UserQueue> create(const RenderDevice& device, uint32_t ip,
                                               const RenderBo& doorbells, uint32_t doorbell,
                                               RenderCopier& copier);
  UserQueue(UserQueue&& other) noexcept;
  UserQueue& operator=(UserQueue&&) = delete;
  ~UserQueue();

  uint32_t id() const { return id_; }
  // Adds packets to the ring. The caller limits what is pending.
  void put(std::span<const uint32_t> packets);
  void ring();
  // Adds a packet that signals the fence, rings, and lets the fence signal a binary syncobj. The
  // doorbell follows the ioctl, as in Mesa. Compute only.
  amdgpu_criu::Status signal(const SyncObject& syncobj);

 private:
  UserQueue(const RenderDevice& device, RenderBo memory, RenderBo wptr)
      : device_(&device), memory_(std::move(memory)), wptr_(std::move(wptr)) {}
  uint64_t position() const;

  const RenderDevice* device_;
  RenderBo memory_, wptr_;
  uint64_t* doorbell_ = nullptr;
  bool in_bytes_ = false;
  uint32_t id_ = 0;
  uint64_t next_ = 0;
};

}  // namespace e2e
