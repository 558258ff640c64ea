// SPDX-License-Identifier: GPL-2.0
// The processes that somebody has forked, in case that one dies before they are complete, or gives
// up.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "base/fd.h"

namespace amdgpu_criu::restore {

// What is mapped, as /proc/PID/maps shows it.
struct Backing {
  std::string device;
  uint64_t inode = 0;
  bool operator==(const Backing&) const = default;
};

class Orphans {
 public:
  // memory: shared with all that the parent has forked, until they become something else.
  Orphans(pid_t parent, const void* memory);

  // Notes the parent's children of this moment, but for the caller. Tasks that runc lets CRIU
  // restore are siblings of CRIU (RstSibling): those that have the memory. To be called now and
  // then while the parent lives: afterwards nobody is known to have been its child.
  void look();
  // Kills them, and all that they have forked.
  void kill();

 private:
  void note(pid_t pid);

  pid_t parent_;
  std::optional<Backing> memory_;
  std::map<pid_t, Pidfd> children_;  // the numbers may be reused
};

// Kills all other processes that have this memory: it is shared with those that the caller has
// forked, and theirs, until they become something else.
void kill_sharers(const void* memory);

}  // namespace amdgpu_criu::restore
