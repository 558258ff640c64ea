// SPDX-License-Identifier: GPL-2.0
// Reasons to end a dump early: SIGTERM or SIGINT to CRIU, the deadline of the option
// amdgpu.timeout, and a failure of one GPU while others are saved.
#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/bounded.h"
#include "base/fd.h"
#include "kernel/kernel_api.h"

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

  // Makes check() fail from now on. From any thread.
  void stop_others() { stopped_ = true; }

  // To be called between two pieces of work, from any thread.
  Status check() const;
  Check as_check() const {
    return [this] { return check(); };
  }
  // The part of check() about signals.
  static Status check_signals();
  // While it exists, the deadline interrupts blocking system calls of this thread, again and again.
  class Alarm {
   public:
    explicit Alarm(const Interruption& interruption);
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    ~Alarm();

   private:
    std::optional<timer_t> timer_;
    struct sigaction before_{};
  };
  // True if the error is that of stop_others(), which another error caused.
  static bool is_consequence(const Error& error) { return error.code() == ECANCELED; }

 private:
  std::chrono::seconds timeout_;
  std::optional<Clock::time_point> start_;
  std::atomic<bool> stopped_ = false;
};

// Makes SIGTERM and SIGINT fail check() until destroyed, unless CRIU ignores them. At other times
// these signals end CRIU, and the kernel or UnpausedBySignals resumes the paused
// processes. Objects may be nested.
class CaughtSignals {
 public:
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();
};

// While it exists, a signal that ends CRIU outside of the plugin first unpauses all processes: some
// kernels do not do so at the end of CRIU, and others when the session is closed, which a
// background process with a disk that does not answer still has open.
class UnpausedBySignals {
 public:
  // `unpause` is called by the signal handler.
  explicit UnpausedBySignals(std::function<void()> unpause);
  UnpausedBySignals(const UnpausedBySignals&) = delete;
  UnpausedBySignals& operator=(const UnpausedBySignals&) = delete;
  ~UnpausedBySignals();

  // Called by the signal handler.
  void unpause() const;

 private:
  std::function<void()> unpause_;
  pid_t owner_ = getpid();
};

// While it exists, a signal that ends CRIU outside of the plugin first removes the images of this
// dump, unless a dumped process has ended.
class DoomedImages {
 public:
  static Result<std::unique_ptr<DoomedImages>> create(int directory,
                                                      const std::vector<pid_t>& processes);
  DoomedImages(const DoomedImages&) = delete;
  DoomedImages& operator=(const DoomedImages&) = delete;
  ~DoomedImages();

  // A child that writes images, which is killed first; 0: there is none.
  void set_writer(pid_t pid) { writer_ = pid; }
  // Called by the signal handler.
  void remove() const;

 private:
  explicit DoomedImages(Fd directory) : directory_(std::move(directory)) {}

  Fd directory_;
  std::vector<Pidfd> processes_;
  pid_t owner_ = getpid();
  std::atomic<pid_t> writer_ = 0;
};

}  // namespace amdgpu_criu::dump
