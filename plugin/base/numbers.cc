// SPDX-License-Identifier: GPL-2.0
#include "base/numbers.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>

#include "base/fd.h"

namespace amdgpu_criu {
namespace {

constexpr char kLastNumber[] = "/proc/sys/kernel/ns_last_pid";
// The kernel gives none below by itself.
constexpr pid_t kLowest = 300;
// More than a restore has helpers. Each of up to 64 GPUs has a thread and 8 for I/O, and there is a
// thread to decompress for each CPU and for each GPU.
constexpr pid_t kBlock = 2048;

// The numbers from `next` to `end` are for helpers. 0: the kernel chooses.
std::atomic<pid_t> next = 0, end = 0;
std::mutex one_thread_at_a_time;

bool is_in_use(pid_t number) { return syscall(SYS_kill, number, 0) == 0 || errno != ESRCH; }

// Returns 0 when the kernel is to choose.
pid_t next_number() {
  while (next < end) {
    const pid_t number = next++;
    if (!is_in_use(number)) return number;
  }
  return 0;
}

// Where the C library keeps the calling thread's number.
pid_t* place_of_number() {
  pid_t* place = nullptr;
  return prctl(PR_GET_TID_ADDRESS, &place) == 0 ? place : nullptr;
}

bool write_last(std::string_view number) {
  const auto file = Fd::open(kLastNumber, O_WRONLY);
  return file.ok() && write(file->get(), number.data(), number.size()) > 0;
}

}  // namespace

// The last block without a number of a task.
void choose_numbers_of_helpers(const std::set<uint32_t>& tasks) {
  pid_t begin = 0;
  std::ifstream("/proc/sys/kernel/pid_max") >> begin;
  next = end = 0;
  while (begin >= kLowest + kBlock && !next) {
    begin -= kBlock;
    const auto task = tasks.lower_bound(begin);
    if (task != tasks.end() && static_cast<pid_t>(*task) < begin + kBlock) continue;
    end = begin + kBlock;
    next = begin;
  }
}

pid_t fork_helper() {
  clone_args args{};
  args.flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  args.exit_signal = SIGCHLD;
  args.child_tid = reinterpret_cast<uintptr_t>(place_of_number());
  while (args.child_tid) {
    const pid_t number = next_number();
    if (!number) break;
    args.set_tid = reinterpret_cast<uintptr_t>(&number);
    args.set_tid_size = 1;
    const long result = syscall(SYS_clone3, &args, sizeof(args));
    if (result >= 0) return static_cast<pid_t>(result);
    if (errno != EEXIST) next = end = 0;  // the kernel does not allow it
  }
  return fork();
}

// A thread whose number another process has taken meanwhile has one of those that follow. A high
// last number is that of another restore, which has a helper at the same time or was killed before
// it put the last number back. The kernel would go on with the lowest ones after it, too.
NumberOfThread::NumberOfThread() : turn_(one_thread_at_a_time) {
  const pid_t number = next_number();
  pid_t last = 0;
  if (!number || !(std::ifstream(kLastNumber) >> last)) return;
  if (!write_last(std::to_string(number - 1))) return;
  last_ = std::to_string(last < end - kBlock - 1 ? last : kLowest);
}

NumberOfThread::~NumberOfThread() {
  if (!last_.empty()) (void)write_last(last_);
}

}  // namespace amdgpu_criu
