// SPDX-License-Identifier: GPL-2.0
// The processes that somebody has forked, in case that one dies before they are complete, or gives
// up.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>

#include "base/fd.h"

namespace amdgpu_criu::restore {

class Orphans {
 public:
  explicit Orphans(pid_t parent) : parent_(parent) {}

  // Notes the parent's children of this moment, but for the caller. To be called now and then while
  // the parent lives: afterwards nothing tells whose they were.
  void look();
  // Kills them, and all that they have forked.
  void kill();

 private:
  pid_t parent_;
  std::map<pid_t, Pidfd> children_;  // the numbers may be reused
};

// Kills all other processes that have this memory: it is shared with those that the caller has
// forked, and theirs, until they become something else.
void kill_sharers(const void* memory);

}  // namespace amdgpu_criu::restore
