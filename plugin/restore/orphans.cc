// SPDX-License-Identifier: GPL-2.0
#include "restore/orphans.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "base/ending_process.h"
#include "base/log.h"
#include "base/result.h"
#include "host/host.h"

namespace amdgpu_criu::restore {
namespace {

// None of a process that has ended.
std::set<pid_t> children_of(pid_t pid) {
  const auto children = host::children_of(pid);
  if (!children.ok()) return {};
  return {children->begin(), children->end()};
}

// Returns the first mapping in the file for which `wanted` is true.
template <typename Wanted>
std::optional<Backing> find_backing(pid_t pid, const Wanted& wanted) {
  std::ifstream maps(formatted("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uint64_t start = 0, end = 0;
    char dash;
    std::string permissions, offset;
    Backing backing;
    fields >> std::hex >> start >> dash >> end >> permissions >> offset >> backing.device >>
        std::dec >> backing.inode;
    if (fields && backing.inode != 0 && wanted(start, end, backing)) return backing;
  }
  return std::nullopt;
}

std::optional<Backing> backing_of(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return find_backing(getpid(), [&](uint64_t start, uint64_t end, const Backing&) {
    return start <= address && address < end;
  });
}

bool maps(pid_t pid, const Backing& wanted) {
  return find_backing(pid, [&](uint64_t, uint64_t, const Backing& it) { return it == wanted; })
      .has_value();
}

// 0: it is gone.
pid_t parent_of(pid_t pid) {
  std::ifstream status(formatted("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::atoi(line.c_str() + 5));
  return 0;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code == std::errc() && *end == '\0') result.push_back(pid);
  }
  return result;
}

}  // namespace

Orphans::Orphans(pid_t parent, const void* memory) : parent_(parent), memory_(backing_of(memory)) {}

// CRIU gives a task the number that a helper process of CRIU may have had.
bool Orphans::is_noted(pid_t pid) const {
  const auto child = children_.find(pid);
  return child != children_.end() && child->second.valid() && !has_ended(child->second);
}

void Orphans::note(pid_t pid) {
  if (pid != getpid() && !is_noted(pid)) children_[pid] = Pidfd::find(pid);
}

void Orphans::look() {
  for (const pid_t child : children_of(parent_)) note(child);
  if (!memory_) return;
  const auto siblings = children_of(parent_of(parent_));
  std::erase_if(strangers_, [&](pid_t pid) { return !siblings.contains(pid); });
  for (const pid_t sibling : siblings) {
    if (sibling == parent_ || is_noted(sibling) || strangers_.contains(sibling)) continue;
    if (maps(sibling, *memory_))
      note(sibling);
    else
      strangers_.insert(sibling);
  }
}

void Orphans::main_died() {
  log_error("CRIU has died in the middle of a restore: {} processes killed", kill_all());
}

size_t Orphans::kill_all() {
  // Stopped processes do not fork. Their children are listed only while they live.
  std::map<pid_t, Pidfd> doomed = std::move(children_);
  std::erase_if(doomed, [](const auto& entry) { return !entry.second.signal(SIGSTOP); });
  for (bool more = true; more;) {
    more = false;
    std::set<pid_t> found;
    for (const auto& entry : doomed) found.merge(children_of(entry.first));
    for (const pid_t pid : found) {
      if (doomed.contains(pid)) continue;
      auto process = Pidfd::find(pid);
      if (!process.signal(SIGSTOP)) continue;
      doomed[pid] = std::move(process);
      more = true;
    }
  }
  for (const auto& [pid, process] : doomed) process.signal(SIGKILL);
  return doomed.size();
}

void kill_sharers(const void* memory) {
  const auto shared = backing_of(memory);
  if (!shared) return;
  // A task may fork before it is killed, behind the end of the list.
  std::set<pid_t> killed;
  for (size_t before = 1; before != killed.size();) {
    before = killed.size();
    for (const pid_t pid : all_processes()) {
      if (pid == getpid() || killed.contains(pid)) continue;
      // Opened first, so that the examined process stays the same if its number is reused.
      const auto process = Pidfd::find(pid);
      if (!maps(pid, *shared) || !process.signal(SIGKILL)) continue;
      log_warning("process {} of a restore that failed was left: killed", pid);
      killed.insert(pid);
    }
  }
}

}  // namespace amdgpu_criu::restore
