// SPDX-License-Identifier: GPL-2.0
// A process that works while CRIU's main process and the restored tasks do what they have to.
//
// A process, not a thread: CRIU's main process forks until all tasks are there, changes namespaces,
// which one with threads cannot, and its log is for one writer. It is in main's own namespaces and
// has what main had open, whatever the tasks are in. If main dies in the middle of a restore it
// kills the tasks, which nobody else would: they can never go on.
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
  // Both are called in the new process. `fail` ends it and does not return; CRIU then gives up, for
  // a child of it has ended.
  using Fail = std::function<void(const Error&)>;
  using Work = std::function<void(const Fail& fail)>;

  // Main must not have threads. memory: shared with all that main forks.
  static Result<std::unique_ptr<Background>> start(const Work& work, const void* memory = nullptr);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Ends it if it is still at work.
  ~Background();

  // Waits until it has done its work, and says how that ended, each time.
  Status finish();
  // Nobody needs it any more: the tasks can do without main.
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
