// SPDX-License-Identifier: GPL-2.0
// Copies by an SDMA queue of its own, to fill and check memory that the CPU cannot access, and to
// read all memory by the GPU.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "workload/events.h"
#include "workload/pattern.h"
#include "workload/queue_sdma.h"

namespace e2e {

// A range of a BO; ends at the end of the BO.
struct Part {
  uint64_t offset = 0;
  uint64_t bytes = UINT64_MAX;
};

class Copier {
 public:
  static amdgpu_criu::Result<Copier> create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                                            EventPage& events, unsigned timeout_ms);
  amdgpu_criu::Status fill(const Bo& bo, const Pattern& pattern, Part part = {});
  amdgpu_criu::Result<std::optional<Damage>> check(const Bo& bo, const Pattern& pattern,
                                                   Part part = {});

  unsigned bo_count() const { return queue_.queue().bo_count() + 1; }
  uint64_t bytes() const { return queue_.queue().bytes() + staging_.size(); }

 private:
  Copier(const Kfd& kfd, SdmaQueue queue, Bo staging, Event event, unsigned timeout_ms)
      : kfd_(&kfd),
        queue_(std::move(queue)),
        staging_(std::move(staging)),
        event_(std::move(event)),
        timeout_ms_(timeout_ms) {}
  amdgpu_criu::Status copy(uint64_t to, uint64_t from, uint64_t bytes);

  const Kfd* kfd_;
  SdmaQueue queue_;
  Bo staging_;
  Event event_;
  unsigned timeout_ms_;
};

}  // namespace e2e
