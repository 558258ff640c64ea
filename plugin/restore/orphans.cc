// SPDX-License-Identifier: GPL-2.0
#include "restore/orphans.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <format>
#include <fstream>

#include "base/log.h"

namespace restore {
namespace {

// As the kernel lists them, by thread.
std::set<pid_t> children_of(pid_t pid) {
  std::set<pid_t> result;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator(std::format("/proc/{}/task", pid), error)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) result.insert(child);
  }
  return result;
}

}  // namespace

void Orphans::look() {
  for (const pid_t child : children_of(parent_))
    if (child != getpid() && !children_.contains(child)) children_[child] = base::Pidfd::open(child);
}

void Orphans::kill() {
  // Stopped ones fork no more. Their children are known as such only as long as they live.
  std::map<pid_t, base::Pidfd> doomed = std::move(children_);
  std::erase_if(doomed, [](const auto& entry) { return !entry.second.signal(SIGSTOP); });
  for (bool more = true; more;) {
    more = false;
    std::set<pid_t> found;
    for (const auto& entry : doomed) found.merge(children_of(entry.first));
    for (const pid_t pid : found) {
      if (doomed.contains(pid)) continue;
      auto process = base::Pidfd::open(pid);
      if (!process.signal(SIGSTOP)) continue;
      doomed[pid] = std::move(process);
      more = true;
    }
  }
  for (const auto& [pid, process] : doomed) process.signal(SIGKILL);
  base::log_error("CRIU has died in the middle of a restore: {} processes killed", doomed.size());
}

}  // namespace restore
