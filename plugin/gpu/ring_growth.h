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

  // From slot `current` to the next one, so that all are used in turn. After the last one, slots
  // are added, or removed once `empty(index)` has emptied all of them, the oldest first. Slots must
  // stay where they are when some are added.
  template <typename Slots, typename Empty>
  Status go_on(Slots& slots, unsigned& current, uint64_t left, const Empty& empty) {
    if (++current < slots.size()) return {};
    current = 0;
    const unsigned wanted = end_turn(left);
    if (wanted < slots.size())
      for (unsigned i = 0; i < slots.size(); i++) TRY(empty(i));
    else if (wanted > slots.size())
      current = static_cast<unsigned>(slots.size());
    slots.resize(wanted);
    return {};
  }

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
