// SPDX-License-Identifier: GPL-2.0
// The chain. Step n runs on GPU (n - 1) mod GPUs:
//
//   SDMA  waits for the gate and for step n - 1; copies block X to Y, adds to Y; fence, event
//   PM4   waits for that fence; copies Y's cell to X, adds to X, writes the history; fence, event,
//         and sets the AQL packet's dependency to 0
//   AQL   barrier packet: waits for the dependency; decrements its signal, event
//
// The CPU opens the gate for one step at a time and waits for the three events, but kAhead further
// steps are always in the queues. So every queue always has pending work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "workload/events.h"
#include "workload/pattern.h"
#include "workload/queue_aql.h"
#include "workload/queue_pm4.h"
#include "workload/queue_sdma.h"

namespace e2e {

// The chain's objects on one GPU.
class Lane {
 public:
  static amdgpu_criu::Result<Lane> create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                                          EventPage& events);
  SdmaQueue sdma;
  Pm4Queue pm4;
  AqlQueue aql;
  Event sdma_event, pm4_event, aql_event;
};

class Chain {
 public:
  static amdgpu_criu::Result<Chain> create(const Kfd& kfd, std::span<const Gpu* const> gpus,
                                           std::span<Doorbells* const> doorbells, EventPage& events,
                                           unsigned timeout_ms);
  // One step; ETIMEDOUT if its events are not signaled, EBADMSG if its results are wrong.
  amdgpu_criu::Status step();
  uint64_t done() const { return done_; }
  // Checks X, Y and the history completely. Between steps nothing writes them.
  void check(std::vector<std::string>& problems) const;

  unsigned queue_count() const { return static_cast<unsigned>(lanes_.size() * 3); }
  unsigned event_count() const { return static_cast<unsigned>(lanes_.size() * 3); }
  unsigned bo_count() const;
  uint64_t bytes() const;

 private:
  struct Memory {
    Bo cells, x, y, history;
  };
  static constexpr unsigned kAhead = 8;

  Chain(const Kfd& kfd, Memory memory, std::vector<Lane> lanes, unsigned timeout_ms)
      : kfd_(&kfd), memory_(std::move(memory)), lanes_(std::move(lanes)), timeout_ms_(timeout_ms) {}
  void prepare();
  amdgpu_criu::Status submit(uint64_t step);
  amdgpu_criu::Status check_step(uint64_t step) const;
  std::string progress(uint64_t step) const;

  size_t lane_of(uint64_t step) const { return (step - 1) % lanes_.size(); }
  // The number of steps of the same lane up to and including this one.
  uint64_t count_in_lane(uint64_t step) const { return (step - 1) / lanes_.size() + 1; }
  int64_t signal_after(uint64_t step) const;

  const Kfd* kfd_;
  Memory memory_;
  std::vector<Lane> lanes_;
  unsigned timeout_ms_;
  uint64_t done_ = 0;
};

}  // namespace e2e
