// SPDX-License-Identifier: GPL-2.0
#include "gpu/ring_growth.h"

#include <algorithm>
#include <utility>

namespace amdgpu_criu::gpu {
namespace {

constexpr double kFaster = 1.1;  // than before
constexpr double kSecondsLeft = 2;

}  // namespace

RingGrowth::RingGrowth(Engine& engine, unsigned most, Clock::time_point now)
    : engine_(engine),
      slots_(engine.slots()),
      most_(most),
      start_(now),
      is_settled_(slots_ >= most) {}

unsigned RingGrowth::end_turn(uint64_t left, Clock::time_point now) {
  const std::chrono::duration<double> time = now - std::exchange(start_, now);
  const uint64_t used = std::exchange(used_, 0);
  const bool is_measured =
      std::exchange(is_warm_, true) && 2 * used >= slots_ * engine_.staging(0).size();
  if (is_settled_ || !is_measured || time.count() <= 0) return slots_;
  const double rate = static_cast<double>(used) / time.count();
  const unsigned chosen = choose(rate, static_cast<double>(left) / rate);
  if (chosen > engine_.slots() && !engine_.add_slots(chosen - engine_.slots()).ok()) {
    is_settled_ = true;
  } else if (chosen != slots_) {
    rate_before_ = rate;
    slots_before_ = std::exchange(slots_, chosen);
    is_warm_ = false;
  }
  return slots_;
}

unsigned RingGrowth::choose(double rate, double seconds_left) {
  const bool is_faster = rate >= kFaster * rate_before_;
  is_settled_ = slots_ >= most_ || !is_faster;
  if (!is_faster) return slots_before_;
  return seconds_left >= kSecondsLeft ? std::min(2 * slots_, most_) : slots_;
}

}  // namespace amdgpu_criu::gpu
