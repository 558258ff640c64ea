// SPDX-License-Identifier: GPL-2.0
#include "tool/traced.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "host/host.h"

namespace amdgpu_criu::tool {
namespace {

constexpr std::chrono::milliseconds kPoll{1};

}  // namespace

bool is_stopped(pid_t pid) {
  const auto threads = host::threads_of(pid);
  return !threads.ok() || std::ranges::all_of(*threads, [pid](pid_t thread) {
    std::ifstream stat(formatted("/proc/{}/task/{}/stat", pid, thread));
    std::string line;
    std::getline(stat, line);
    const size_t name_end = line.rfind(") ");
    return name_end == line.npos || strchr("TtZX", line[name_end + 2]);
  });
}

Result<std::vector<pid_t>> tree_of(pid_t pid) {
  std::vector<pid_t> result{pid};
  for (size_t i = 0; i < result.size(); i++) {
    const auto children = host::children_of(result[i]);
    if (!children.ok() && i == 0) return children.error();
    if (!children.ok()) continue;  // it has ended since
    for (const pid_t child : *children) result.push_back(child);
  }
  return result;
}

Result<bool> StoppedTree::stop_thread(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0) {
    const Error error = Error::system("cannot trace thread {} (does a debugger, or criu?)", thread);
    if (host::has_ended(thread)) return false;  // a zombie has nothing to stop
    return error;
  }
  int& pending = threads_[thread] = 0;
  if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0) return false;  // it has ended since
  const auto status = TRY(wait_for_stop(thread));
  if (!status || !WIFSTOPPED(*status)) return false;
  if (*status >> 16 != PTRACE_EVENT_STOP) pending = WSTOPSIG(*status);
  return true;
}

Result<std::optional<int>> StoppedTree::wait_for_stop(pid_t thread) const {
  const auto end = std::chrono::steady_clock::now() + patience_;
  while (true) {
    int status = 0;
    const pid_t stopped = waitpid(thread, &status, __WALL | WNOHANG);
    if (stopped == thread) return std::optional(status);
    if (stopped < 0) return std::optional<int>();
    if (std::chrono::steady_clock::now() > end)
      return Error::of(ETIMEDOUT, "thread {} ({}) does not stop: it waits in the kernel", thread,
                       host::comm_of(thread));
    std::this_thread::sleep_for(kPoll);
  }
}

Result<bool> StoppedTree::stop_new_threads(pid_t pid) {
  bool found = false;
  const auto threads = host::threads_of(pid);
  if (!threads.ok()) return true;  // it has ended since: the tree is another one
  for (const pid_t thread : *threads) {
    if (threads_.contains(thread)) continue;
    found |= TRY(stop_thread(thread));
  }
  return found;
}

// Running processes may create threads and children meanwhile; repeat until none runs.
Result<StoppedTree> StoppedTree::stop(pid_t pid, std::chrono::milliseconds patience) {
  StoppedTree tree(patience);
  for (bool found = true; std::exchange(found, false);) {
    tree.pids_ = TRY(tree_of(pid));
    for (const pid_t one : tree.pids_) found |= TRY(tree.stop_new_threads(one));
  }
  return tree;
}

StoppedTree::~StoppedTree() {
  for (const auto& [thread, signal] : threads_) ptrace(PTRACE_DETACH, thread, 0, signal);
}

}  // namespace amdgpu_criu::tool
