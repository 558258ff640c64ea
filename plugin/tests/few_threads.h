// SPDX-License-Identifier: GPL-2.0
// Threads that cannot be created, as at the limit of a pids cgroup. One file of a program includes
// this; the program is linked with --wrap for the function below.
#pragma once

#include <atomic>
#include <cerrno>
#include <system_error>

namespace amdgpu_criu::testing_support {

// How many threads this process and its descendants may each create; -1: any number.
inline std::atomic<int> threads_left = -1;

}  // namespace amdgpu_criu::testing_support

// What std::thread creates a thread by. The linker replaces it.
#define START_THREAD(kind) \
  kind##_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
extern "C" {
void START_THREAD(__real_)(void* thread, void* state, void (*depend)());
void START_THREAD(__wrap_)(void* thread, void* state, void (*depend)()) {
  using amdgpu_criu::testing_support::threads_left;
  for (int left = threads_left; left >= 0;) {
    if (left == 0) throw std::system_error(EAGAIN, std::generic_category());
    if (threads_left.compare_exchange_weak(left, left - 1)) break;
  }
  START_THREAD(__real_)(thread, state, depend);
}
}
