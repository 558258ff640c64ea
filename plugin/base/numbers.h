// SPDX-License-Identifier: GPL-2.0
// PIDs and TIDs of the helpers of a restore.
//
// CRIU creates each task with the number that it had, and fails if the number is in use. The kernel
// gives a new process or thread the number after the latest one, which a task of this restore or of
// another one may need. Helpers therefore take numbers near the end of those of the PID namespace,
// and the next process of the machine has the number that it would have without them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace amdgpu_criu {

// To be called in CRIU's main process. Until then the functions below leave numbers to the kernel,
// as they do if it does not let this process choose. tasks: numbers that stay free.
void choose_numbers_of_helpers(const std::set<uint32_t>& tasks);

// fork(), for a process without threads.
pid_t fork_helper();

// While it lives, a new thread of this process has such a number. So has a process that another
// program starts meanwhile.
class NumberOfThread {
 public:
  NumberOfThread();
  NumberOfThread(const NumberOfThread&) = delete;
  NumberOfThread& operator=(const NumberOfThread&) = delete;
  ~NumberOfThread();

 private:
  // A new thread may create others at once.
  std::unique_lock<std::mutex> turn_;
  std::string last_;  // of /proc/sys/kernel/ns_last_pid before; empty: not changed
};

template <typename Thread = std::thread, typename Body>
Thread start_helper_thread(Body body) {
  const NumberOfThread number;
  return Thread(std::move(body));
}

}  // namespace amdgpu_criu
