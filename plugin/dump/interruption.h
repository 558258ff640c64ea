// SPDX-License-Identifier: GPL-2.0
// Reasons to end a dump early: SIGTERM or SIGINT to CRIU, the deadline of the option
// amdgpu.timeout, and a failure of one GPU while others are saved.
#pragma once

#include <signal.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "base/result.h"

namespace amdgpu_criu::dump {

class Interruption {
 public:
  using Clock = std::chrono::steady_clock;

  // The time counts from the first call of begin(); 0: there is no deadline.
  explicit Interruption(std::chrono::seconds timeout) : timeout_(timeout) {}
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void begin() {
    if (!start_) start_ = Clock::now();
  }

  // From any thread: check() fails from now on.
  void stop_others() { stopped_ = true; }

  // Asked between two pieces of work, from any thread.
  Status check() const;
  // The error is only that of stop_others(): another one is its cause.
  static bool is_consequence(const Error& error) { return error.code() == ECANCELED; }

 private:
  std::chrono::seconds timeout_;
  std::optional<Clock::time_point> start_;
  std::atomic<bool> stopped_ = false;
};

// Takes SIGTERM and SIGINT for check() until destroyed. Outside of that they end CRIU, and the
// kernel resumes what was paused.
class CaughtSignals {
 public:
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();

 private:
  struct sigaction terminate_{};
  struct sigaction interrupt_{};
};

}  // namespace amdgpu_criu::dump
