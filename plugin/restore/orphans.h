// SPDX-License-Identifier: GPL-2.0
// The processes that a parent has forked, to be killed if the parent dies or gives up before they
// are complete.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/background.h"

namespace amdgpu_criu::restore {

// A mapping, as in /proc/PID/maps.
struct Backing {
  std::string device;
  uint64_t inode = 0;
  bool operator==(const Backing&) const = default;
};

// If the main process dies in the middle of a restore, its tasks could not continue.
class Orphans final : public Background::Watch {
 public:
  // memory: shared with all processes that the parent has forked, until they replace their memory.
  Orphans(pid_t parent, const void* memory);

  // Records the parent's current children except the caller. Tasks that CRIU restores for runc are
  // siblings of CRIU (RstSibling) and are identified by the memory. To be called repeatedly while
  // the parent lives: afterwards its children cannot be found.
  void look() override;
  void main_died() override;
  // Kills them and all their descendants. Returns their number.
  size_t kill_all();

 private:
  bool is_noted(pid_t pid) const;
  void note(pid_t pid);

  pid_t parent_;
  std::optional<Backing> memory_;
  std::map<pid_t, Pidfd> children_;  // the numbers may be reused
  std::set<pid_t> strangers_;        // siblings without the memory, which a task has from its start
};

// Kills all other processes that have this memory: the descendants of the caller, until they
// replace their memory.
void kill_sharers(const void* memory);

}  // namespace amdgpu_criu::restore
