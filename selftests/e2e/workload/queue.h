// SPDX-License-Identifier: GPL-2.0
// The common parts of queues of all types: ring, pointers, doorbell, and for compute queues the EOP
// buffer and the context save area.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "workload/memory.h"

namespace e2e {

// The doorbells of this process on one GPU; the first queue determines their offset.
class Doorbells {
 public:
  amdgpu_criu::Result<volatile uint64_t*> at(const Kfd& kfd, const Gpu& gpu,
                                             uint64_t doorbell_offset);
  unsigned bo_count() const { return page_ && page_->handle() ? 1 : 0; }
  uint64_t bytes() const { return page_ ? page_->size() : 0; }

 private:
  std::optional<Bo> page_;
};

struct QueueSpec {
  QueueType type;
  uint32_t ring_bytes;  // a power of two, at least a page
  Domain ring_domain = Domain::kGtt;
};

class Queue {
 public:
  static amdgpu_criu::Result<Queue> create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                                           const QueueSpec& spec);
  Queue(Queue&& other) noexcept;
  Queue& operator=(Queue&&) = delete;
  ~Queue();

  std::span<std::byte> ring() const { return ring_.bytes(); }
  // As last written back by the GPU, and as last rung; units are those of the queue's type.
  uint64_t read_pointer() const;
  uint64_t write_pointer() const { return write_pointer_; }
  // Rings the doorbell: everything before the new write pointer is in the ring.
  void ring_doorbell(uint64_t write_pointer, uint64_t doorbell_value);

  uint32_t id() const { return id_.value_or(0); }
  uint64_t doorbell_offset() const { return doorbell_offset_; }
  uint64_t ring_va() const { return ring_.va(); }
  unsigned bo_count() const { return 2 + (eop_ ? 1 : 0) + (context_save_ ? 1 : 0); }
  uint64_t bytes() const;

 private:
  Queue(const Kfd& kfd, Bo ring, Bo pointers)
      : kfd_(&kfd), ring_(std::move(ring)), pointers_(std::move(pointers)) {}

  const Kfd* kfd_;
  Bo ring_;
  Bo pointers_;
  std::optional<Bo> eop_;
  std::optional<Bo> context_save_;
  std::optional<uint32_t> id_;
  uint64_t doorbell_offset_ = 0;
  volatile uint64_t* doorbell_ = nullptr;
  uint64_t write_pointer_ = 0;
};

}  // namespace e2e
