// SPDX-License-Identifier: GPL-2.0
// A process that works in parallel with CRIU's main process.
//
// It is not a thread, because CRIU's main process forks and changes namespaces, which a process
// with threads cannot do, and because CRIU's log has one writer. It is not a child of the main
// process either: CRIU takes the end of any child for that of a task. The background process is in
// the namespaces of the main process and has its open files.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu {

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
    const char* verb;  // what it does with GPU memory, for messages
    // Called in the new process; empty: nothing to do.
    std::function<std::unique_ptr<Watch>(pid_t main)> watch{};
  };
  // Both are called in the new process. `fail` reports the error and does not return.
  using Fail = std::function<void(const Error&)>;
  using Work = std::function<void(const Fail& fail)>;

  // The main process must not have threads.
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

 private:
  Background(const char* verb, Pidfd process, Fd result, Fd stop)
      : verb_(verb),
        process_(std::move(process)),
        result_(std::move(result)),
        stop_(std::move(stop)) {}
  Status receive() const;
  void wait_for_end() const;

  const char* verb_;
  Pidfd process_;
  Fd result_;
  Fd stop_;
  std::optional<Status> outcome_;
  bool released_ = false;
};

}  // namespace amdgpu_criu
