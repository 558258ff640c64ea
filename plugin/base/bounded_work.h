// SPDX-License-Identifier: GPL-2.0
// Work in another process, which a signal to CRIU or the deadline ends: a disk, or memory that is
// fetched, can delay a system call without bound, and no signal but SIGKILL interrupts it.
#pragma once

#include <functional>
#include <memory>

#include "base/background.h"
#include "base/interruption.h"

namespace amdgpu_criu {

class BoundedWork {
 public:
  // verb: as in Background::Role
  BoundedWork(const Interruption& interruption, const char* verb)
      : interruption_(interruption), verb_(verb) {}

  // The caller must have no threads. `work` may end early by calling its argument. at_death is
  // called if CRIU dies: a thread of `work` may be blocked then, and delay the end of the process.
  Status start(const Background::Work& work, const std::function<void()>& at_death = {});
  // Waits for the work. After an interruption the process still runs, until give_up().
  Status finish();
  // True if there is a process and finish() need not wait.
  bool is_finished() const;
  // Kills the process, if there is one. False: its disk does not answer.
  bool give_up();
  // Null: there is none.
  const Pidfd* process() const { return process_ ? &process_->process() : nullptr; }

 private:
  const Interruption& interruption_;
  const char* verb_;
  std::unique_ptr<Background> process_;
};

}  // namespace amdgpu_criu
