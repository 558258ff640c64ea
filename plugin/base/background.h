// SPDX-License-Identifier: GPL-2.0
// A process that works in parallel with CRIU's main process and the restored tasks.
//
// A thread would not do: CRIU's main process forks until all tasks exist, and changes namespaces,
// which a process with threads cannot, and its log has one writer. The background process is in the
// namespaces of the main process and has its open files, independently of the tasks. If the main
// process dies in the middle of a restore, the background process kills the tasks, which could not
// continue.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::restore {

class Background {
 public:
  // Both are called in the new process. `fail` ends it and does not return; CRIU then gives up
  // because a child has ended.
  using Fail = std::function<void(const Error&)>;
  using Work = std::function<void(const Fail& fail)>;

  // The main process must not have threads. memory: shared with all processes that it forks.
  static Result<std::unique_ptr<Background>> start(const Work& work, const void* memory = nullptr);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Ends the process if it is still working.
  ~Background();

  // Waits until the work is complete. Each call returns the result.
  Status finish();
  // Ends the process because the tasks no longer need the main process.
  void release();

 private:
  Background(pid_t pid, Pidfd process, Fd result, Fd stop)
      : pid_(pid),
        process_(std::move(process)),
        result_(std::move(result)),
        stop_(std::move(stop)) {}
  Status receive() const;
  void reap() const;

  pid_t pid_;
  Pidfd process_;
  Fd result_;
  Fd stop_;
  std::optional<Status> outcome_;
  bool released_ = false;
};

}  // namespace amdgpu_criu::restore
