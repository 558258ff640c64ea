// SPDX-License-Identifier: GPL-2.0
// Reasons to end a dump or a restore early: a signal that would end CRIU, and the deadline of
// the option amdgpu.timeout.
#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/result.h"

namespace amdgpu_criu {

class Interruption {
 public:
  using Clock = std::chrono::steady_clock;

  // The time counts from the first call of begin(); 0: there is no deadline. operation: "dump" or
  // "restore", for messages.
  explicit Interruption(std::chrono::seconds timeout, const char* operation = "dump")
      : operation_(operation), timeout_(timeout) {}

  void begin() {
    if (!start_) start_ = Clock::now();
  }

  // For work that begins now, after a point where no interruption counted: the time starts again,
  // and a signal that is pending already does not count.
  Interruption anew() const;

  // To be called between two pieces of work, from any thread.
  Status check() const;
  // The part of check() about the deadline, which is moved by `grace`.
  Status check_deadline(std::chrono::milliseconds grace = {}) const;
  // The part of check() about signals. CRIU restores with signals blocked: pending ones count, but
  // not those that it ignores, which are pending as well.
  static Status check_signals(const char* operation);
  // The same for signals that are pending in another process.
  static Status check_signals_of(pid_t pid, const char* operation);
  // nullopt: there is none, or begin() was not called.
  std::optional<std::chrono::milliseconds> time_left() const;

  // While it exists, the deadline interrupts blocking system calls of this thread, again and again;
  // so does the end of the time `soon`, if that is earlier.
  class Alarm {
   public:
    // Fails without a timer, because nothing else would end such a call.
    static Result<Alarm> start(const Interruption& interruption,
                               std::optional<std::chrono::milliseconds> soon = {});
    Alarm(Alarm&& other) noexcept
        : timer_(std::exchange(other.timer_, std::nullopt)), before_(other.before_) {}
    Alarm& operator=(Alarm&&) = delete;
    ~Alarm();

   private:
    Alarm() = default;

    std::optional<timer_t> timer_;  // nullopt: nothing to interrupt for
    struct sigaction before_{};
  };

 private:
  const char* operation_;
  std::chrono::seconds timeout_;
  std::optional<Clock::time_point> start_;
  uint64_t ignored_ = 0;  // bit N-1: signal N does not count
};

// Makes SIGTERM, SIGINT, SIGHUP and SIGQUIT fail check() until destroyed, unless CRIU ignores them.
// At other times these signals end CRIU, and the kernel or AtSignal resumes the paused processes.
// Objects may be nested.
class CaughtSignals {
 public:
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();
};

// While it exists, a signal that ends this process outside of the plugin first calls `action`, in
// the signal handler. At most two exist; the one made first is called first.
class AtSignal {
 public:
  explicit AtSignal(std::function<void()> action);
  AtSignal(const AtSignal&) = delete;
  AtSignal& operator=(const AtSignal&) = delete;
  ~AtSignal();

  // Called by the signal handler. A forked process has no effect.
  void act() const;

 private:
  std::function<void()> action_;
  pid_t owner_;
};

}  // namespace amdgpu_criu
