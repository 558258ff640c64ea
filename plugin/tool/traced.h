// SPDX-License-Identifier: GPL-2.0
// A process tree stopped as CRIU stops it. The driver lets only the tracer of a process act on its
// files.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::tool {

// All its threads, by a signal, a tracer or its end.
bool is_stopped(pid_t pid);
// The process and its descendants, as in `criu dump -t PID`.
Result<std::vector<pid_t>> tree_of(pid_t pid);

// All threads of some processes, traced and stopped until this object is destroyed. If this process
// is killed before that, the kernel continues them.
class StoppedTree {
 public:
  // Fails if a thread does not stop within that time: one that waits in the kernel, for a disk or
  // for its vfork() child, cannot.
  static Result<StoppedTree> stop(pid_t pid,
                                  std::chrono::milliseconds patience = std::chrono::seconds(10));
  StoppedTree(StoppedTree&&) = default;
  StoppedTree& operator=(StoppedTree&&) = delete;
  ~StoppedTree();

  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  explicit StoppedTree(std::chrono::milliseconds patience) : patience_(patience) {}
  // False: there was no new thread.
  Result<bool> stop_new_threads(pid_t pid);
  // False: it has ended.
  Result<bool> stop_thread(pid_t thread);
  // Of waitpid(2); nullopt: it has ended.
  Result<std::optional<int>> wait_for_stop(pid_t thread) const;

  std::chrono::milliseconds patience_;
  std::vector<pid_t> pids_;
  // The signal that each thread was about to get, or 0.
  std::map<pid_t, int> threads_;
};

}  // namespace amdgpu_criu::tool
