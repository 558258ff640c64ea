// SPDX-License-Identifier: GPL-2.0
// How many slots of an engine are used, chosen by measuring.
#pragma once

#include <chrono>
#include <cstdint>

#include "gpu/engine.h"

namespace amdgpu_criu::gpu {

// More slots only help where a transfer takes long to complete, however fast others follow it, as
// on a file system in a network. That shows only if it is tried: after two turns of the ring, of
// which the second is measured, the ring has twice as many slots, and so on while that makes it a
// tenth faster. The last ones are given up if they do not: they would only take room in caches.
class RingGrowth {
 public:
  using Clock = std::chrono::steady_clock;

  // All slots of the engine are used at first, and not more than `most` later.
  RingGrowth(Engine& engine, unsigned most, Clock::time_point now = Clock::now());

  // To be called when a slot is under way: `bytes` of it are used. A turn that uses less than half
  // of the ring says nothing about it.
  void add(uint64_t bytes) { used_ += bytes; }
  // To be called when all slots have been used once more. Returns how many slots the next turn has:
  // if the engine cannot have more, as many as now. left: bytes to transfer; if they take less than
  // two seconds, more slots are not worth their time.
  unsigned end_turn(uint64_t left, Clock::time_point now = Clock::now());

 private:
  unsigned choose(double rate, double seconds_left);

  Engine& engine_;
  unsigned slots_;
  unsigned slots_before_ = 0;  // 0: this number is the first
  const unsigned most_;
  Clock::time_point start_;  // of the turn
  uint64_t used_ = 0;        // in the turn
  double rate_before_ = 0;   // with slots_before_, in bytes per second
  bool is_warm_ = false;     // all slots have been used before this turn
  bool is_settled_ = false;
};

}  // namespace amdgpu_criu::gpu
