// SPDX-License-Identifier: GPL-2.0
#include "base/numbers.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>

#include "base/no_destroy.h"

namespace amdgpu_criu {
namespace {

// The kernel gives none below by itself.
constexpr pid_t kLowest = 300;

NoDestroy<std::set<uint32_t>> kept_free;
std::atomic<pid_t> next = 0;  // counts downwards; 0: the kernel chooses

// Returns 0 when the kernel is to choose.
pid_t next_number() {
  while (true) {
    const pid_t number = next > kLowest ? next-- : 0;
    // The tree's root has the parent 0.
    if (!number || !kept_free->contains(static_cast<uint32_t>(number))) return number;
  }
}

// A new task with the first free number. Returns what clone3(2) returns, or -1.
template <typename Clone>
long with_free_number(clone_args args, const Clone& clone) {
  long result = -EEXIST;
  while (result == -EEXIST) {
    const pid_t number = next_number();
    if (!number) return -1;
    args.set_tid = reinterpret_cast<uintptr_t>(&number);
    args.set_tid_size = 1;
    result = clone(args);
  }
  if (result < 0) next = 0;  // the kernel does not allow it
  return result;
}

// Where the C library keeps the calling thread's number.
pid_t* place_of_number() {
  pid_t* place = nullptr;
  return prctl(PR_GET_TID_ADDRESS, &place) == 0 ? place : nullptr;
}

#ifdef __x86_64__

// The shadow stack of a new thread is empty.
bool has_shadow_stack() {
  constexpr int kStatus = 0x5005;  // ARCH_SHSTK_STATUS
  unsigned long features = 0;
  return syscall(SYS_arch_prctl, kStatus, &features) == 0 && features;
}

// The new thread returns 0, on the stack of the calling one, which ends at once without using it.
long replace_thread(const clone_args& args) {
  long result;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jle 1f\n\t"
      "mov %[exit], %%eax\n\t"
      "xor %%edi, %%edi\n\t"
      "syscall\n"
      "1:"
      : "=a"(result)
      : "0"(static_cast<long>(SYS_clone3)), "D"(&args), "S"(sizeof(args)), [exit] "i"(SYS_exit)
      : "rcx", "r11", "cc", "memory");
  return result;
}

#else

bool has_shadow_stack() { return true; }
long replace_thread(const clone_args&) { return -ENOSYS; }

#endif

}  // namespace

void choose_numbers_of_helpers(std::set<uint32_t> tasks) {
  *kept_free = std::move(tasks);
  pid_t end = 0;
  std::ifstream("/proc/sys/kernel/pid_max") >> end;
  next = std::max(end - 1, 0);
}

pid_t fork_helper() {
  clone_args args{};
  args.flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  args.exit_signal = SIGCHLD;
  args.child_tid = reinterpret_cast<uintptr_t>(place_of_number());
  if (!args.child_tid) return fork();
  const long result = with_free_number(args, [](clone_args& one) {
    const long pid = syscall(SYS_clone3, &one, sizeof(one));
    return pid < 0 ? -errno : pid;
  });
  return result < 0 ? fork() : static_cast<pid_t>(result);
}

// The new thread takes over everything that the C library has of the calling one: its stack, its
// thread-local memory and the place of its number, at whose change threads wait to join.
void renumber_thread() {
  pid_t* const place = place_of_number();
  if (!next || !place || has_shadow_stack()) return;
  static pid_t ignored;
  void* locks = nullptr;
  size_t size = 0;
  uint64_t all = ~uint64_t{0}, before = 0;
  // A handler would run on the stack of both.
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
  syscall(SYS_get_robust_list, 0, &locks, &size);
  syscall(SYS_set_tid_address, &ignored);
  clone_args args{};
  args.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
               CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  args.parent_tid = args.child_tid = reinterpret_cast<uintptr_t>(place);
  if (with_free_number(args, replace_thread) < 0)
    syscall(SYS_set_tid_address, place);
  else
    syscall(SYS_set_robust_list, locks, size);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

}  // namespace amdgpu_criu
