// SPDX-License-Identifier: GPL-2.0
// A process that works in parallel with CRIU's main process.
//
// It is not a thread, because CRIU's main process forks and changes namespaces, and a process with
// threads cannot enter all of them. It is not a child of the main process either: CRIU takes the
// end of any child for that of a task. The background process is in the namespaces of the main
// process and has its open files.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu {

// Of these processes, in ps(1).
inline constexpr char kHelperName[] = "amdgpu-criu";

class Background {
 public:
  // What the process does besides its work.
  class Watch {
   public:
    virtual ~Watch() = default;
    // Called repeatedly while the main process lives.
    virtual void look() = 0;
    // Called when it has died; then the background process ends.
    virtual void main_died() = 0;
  };
  struct Role {
    const char* verb;  // what it does, for messages
    // Called in the new process; empty: nothing to do.
    std::function<std::unique_ptr<Watch>(pid_t main)> watch{};
    // start() returns when the work has called Fail::ready(), or has failed.
    bool announces_threads = false;
  };
  // For the new process.
  class Fail {
   public:
    Fail(std::function<void(const Error&)> fail, std::function<void()> ready)
        : fail_(std::move(fail)), ready_(std::move(ready)) {}
    // Reports the error and does not return.
    void operator()(const Error& error) const { fail_(error); }
    // The work creates no thread after this call.
    void ready() const { ready_(); }

   private:
    std::function<void(const Error&)> fail_;
    std::function<void()> ready_;
  };
  using Work = std::function<void(const Fail& fail)>;

  // The main process must not have threads. Processes and threads have numbers of helpers.
  static Result<std::unique_ptr<Background>> start(const Role& role, const Work& work);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Ends the process if it is still working.
  ~Background();

  const Pidfd& process() const { return process_; }
  // True if finish() need not wait. A signal ends the wait.
  bool is_finished(std::chrono::milliseconds patience) const;
  // Waits until the work is complete. Each call returns the result.
  Status finish();
  // Ends the process because the tasks no longer need the main process.
  void release();
  // Kills the process. False: it has not ended, because its disk does not answer.
  bool kill();

 private:
  Background(const char* verb, Pidfd process, Fd result, Fd stop)
      : verb_(verb),
        process_(std::move(process)),
        result_(std::move(result)),
        stop_(std::move(stop)) {}
  struct Report;
  class Child;
  Result<Report> read_report() const;
  Status receive() const;
  Status wait_until_ready() const;

  const char* verb_;
  Pidfd process_;
  Fd result_;
  Fd stop_;
  std::optional<Status> outcome_;
  bool released_ = false;
};

}  // namespace amdgpu_criu
