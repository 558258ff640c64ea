// SPDX-License-Identifier: GPL-2.0
// SDMA queues that are created, updated and destroyed in any order.
#pragma once

#include <list>
#include <random>
#include <string>
#include <vector>

#include "mix/pages.h"
#include "workload/queue_sdma.h"

namespace e2e {

class Queues {
 public:
  // With a first queue. There are never more than most.
  static amdgpu_criu::Result<Queues> create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                                            size_t most);
  // For mmap() of /dev/kfd.
  uint64_t doorbells_offset() const {
    const uint64_t offset = queues_.front().queue.queue().doorbell_offset();
    return offset - offset % Kfd::kDoorbellSlice;
  }
  amdgpu_criu::Status change(Random& random, bool may_destroy);
  // Checks that enabled queues run and disabled ones do not.
  void check(std::vector<std::string>& problems, unsigned timeout_ms);
  size_t count() const { return queues_.size(); }

 private:
  struct One {
    SdmaQueue queue;
    size_t cell = 0;
    unsigned percent = 100;
    bool has_ring = true;
    uint32_t expected = 0;
    uint32_t submitted = 0;
  };
  Queues(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells, size_t most, Bo cells)
      : kfd_(&kfd), gpu_(&gpu), doorbells_(&doorbells), most_(most), cells_(std::move(cells)) {}
  amdgpu_criu::Status add();
  amdgpu_criu::Status update(Random& random, One& one);
  bool becomes(const One& one, uint32_t value, unsigned timeout_ms) const;
  void check(One& one, std::vector<std::string>& problems, unsigned timeout_ms);

  const Kfd* kfd_;
  const Gpu* gpu_;
  Doorbells* doorbells_;
  size_t most_;
  Bo cells_;
  std::list<One> queues_;
  size_t next_cell_ = 0;
};

}  // namespace e2e
