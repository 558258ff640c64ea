// SPDX-License-Identifier: GPL-2.0
// The end of a process that was killed, or is released. Async-signal-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "base/fd.h"

namespace amdgpu_criu {

// Signals that are pending for all threads of the process, or for the first one, and that it does
// not ignore; bit N-1 is signal N.
uint64_t pending_signals(pid_t pid);
bool has_ended(const Pidfd& process);
// True if it has ended, has begun to exit, which takes long if it frees much memory, or will:
// SIGKILL was sent to it.
bool is_ending(const Pidfd& process);

// Looks whether a process is busy ending, rather than blocked by a disk or a GPU.
class EndingProcess {
 public:
  explicit EndingProcess(pid_t pid) : pid_(pid) {}
  // True if its state in /proc/PID/stat (threads, memory, CPU time) has changed since the last
  // call, or one of its threads waits only for a processor.
  bool is_busy();

 private:
  pid_t pid_;
  std::array<char, 512> last_{};
};

// Waits for its end. False: it ends later, because it is blocked for 0.6 s, or busy for 10 s.
bool wait_for_end(const Pidfd& process);

}  // namespace amdgpu_criu
