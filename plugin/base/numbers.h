// SPDX-License-Identifier: GPL-2.0
// PIDs and TIDs of the helpers of a restore.
//
// CRIU creates each task with the number that it had, and fails if the number is in use. The kernel
// gives a new process the number after the latest one, which a task of this restore or of another
// one may need. Helpers therefore take the highest free numbers of the PID namespace, which the
// kernel gives last, and leave ns_last_pid as it is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <future>
#include <set>
#include <thread>
#include <utility>

namespace amdgpu_criu {

// To be called in CRIU's main process. Until then the functions below leave numbers to the kernel,
// as they do if it does not let this process choose. tasks: numbers that stay free.
void choose_numbers_of_helpers(std::set<uint32_t> tasks);

// fork(), for a process without threads.
pid_t fork_helper();

// Gives the calling thread such a number. To be called when the thread begins.
void renumber_thread();

// When this returns, the thread has its number for good.
template <typename Thread = std::thread, typename Body>
Thread start_helper_thread(Body body) {
  std::promise<void> numbered;
  const auto ready = numbered.get_future();
  Thread thread([numbered = std::move(numbered), body = std::move(body)]() mutable {
    renumber_thread();
    numbered.set_value();
    body();
  });
  ready.wait();
  return thread;
}

}  // namespace amdgpu_criu
