// SPDX-License-Identifier: GPL-2.0
#include "restore/orphans.h"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
#include <new>
#include <vector>

#include "base/fd.h"
#include "host/host.h"

namespace amdgpu_criu::restore {
namespace {

Mapping shared_page() {
  auto page = Mapping::map(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_TRUE(page.ok());
  return *std::move(page);
}

// A child that has unmapped that memory and waits for its end.
pid_t child_without(const Mapping* memory) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (memory) munmap(memory->data(), 4096);
    (void)!write(ready[1], "", 1);
    for (;;) pause();
  }
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

// Not kill(), which other tests of this program replace.
void end(pid_t pid) {
  syscall(SYS_kill, pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(KillSharers, KillsProcessesThatStillHaveTheMemory) {
  const Mapping memory = shared_page(), other = shared_page();
  const pid_t with = child_without(&other), without = child_without(&memory);
  kill_sharers(memory.data());
  int status = 0;
  EXPECT_EQ(waitpid(with, &status, 0), with);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(waitpid(without, &status, WNOHANG), 0);
  end(without);
}

struct Chain {
  std::atomic<unsigned> length;
  pid_t pids[900];
};

// Each process of the chain forks the next one.
[[noreturn]] void fork_chain(Chain& chain) {
  while (chain.length < std::size(chain.pids)) {
    chain.pids[chain.length] = getpid();
    chain.length++;
    usleep(1'000);
    if (fork() != 0) break;
  }
  while (true) pause();
}

TEST(KillSharers, KillsProcessesThatAreForkedMeanwhile) {
  const Mapping memory = shared_page();
  Chain& chain = *new (memory.data()) Chain{};
  const pid_t first = fork();
  if (first == 0) fork_chain(chain);
  while (chain.length < 3) usleep(100);
  kill_sharers(memory.data());
  EXPECT_LT(chain.length, std::size(chain.pids));
  waitpid(first, nullptr, 0);
  int patience = 1000;
  for (unsigned i = 1; i < chain.length; i++) {
    for (; patience > 0 && !host::has_ended(chain.pids[i]); patience--) usleep(1'000);
    EXPECT_TRUE(host::has_ended(chain.pids[i])) << i;
    syscall(SYS_kill, chain.pids[i], SIGKILL);
  }
}

// The tasks are children of the main process's parent, as in a restore by runc; so is a process
// that the main process did not fork.
TEST(Orphans, SiblingsWithTheMemoryOfMainAreItsTasks) {
  const Mapping memory = shared_page();
  volatile auto* task = reinterpret_cast<volatile pid_t*>(memory.data());
  const pid_t main = fork();
  if (main == 0) {
    const auto pid = static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
    if (pid != 0) *task = pid;
    for (;;) pause();
  }
  const pid_t stranger = child_without(&memory);
  while (*task == 0) usleep(1000);
  Orphans orphans(main, memory.data());
  orphans.look();
  end(main);
  orphans.main_died();
  int status = 0;
  EXPECT_EQ(waitpid(*task, &status, 0), *task);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(waitpid(stranger, &status, WNOHANG), 0);
  end(stranger);
}

// CRIU gives a task its number; before that a helper of CRIU may have had it.
TEST(Orphans, ATaskWithTheNumberOfAnEarlierChildIsKilled) {
  const Mapping memory = shared_page();
  volatile auto* task = reinterpret_cast<volatile pid_t*>(memory.data());
  volatile auto* go_on = task + 1;
  const pid_t main = fork();
  if (main == 0) {
    pid_t helper = fork();
    if (helper == 0)
      for (;;) pause();
    task[0] = helper;
    while (*go_on == 0) usleep(1000);
    end(helper);
    clone_args args{};
    args.exit_signal = SIGCHLD;
    args.set_tid = reinterpret_cast<uintptr_t>(&helper);
    args.set_tid_size = 1;
    const long again = syscall(SYS_clone3, &args, sizeof(args));
    if (again != 0) *go_on = again > 0 ? 2 : 3;
    for (;;) pause();
  }
  while (*task == 0) usleep(1000);
  Orphans orphans(main, memory.data());
  orphans.look();
  *go_on = 1;
  while (*go_on == 1) usleep(1000);
  orphans.look();
  const auto process = Pidfd::find(*task);
  end(main);
  orphans.main_died();
  if (*go_on == 3) GTEST_SKIP() << "numbers cannot be chosen";
  pollfd ended{process.fd().get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 5000), 1);
  process.signal(SIGKILL);
}

// CRIU may be a child of init, which has hundreds.
TEST(Orphans, ASiblingThatIsNoTaskIsExaminedOnce) {
  const auto processor_time = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const Mapping memory = shared_page();
  std::vector<pid_t> siblings;
  while (siblings.size() < 150) siblings.push_back(child_without(&memory));
  const pid_t main = child_without(nullptr);
  Orphans orphans(main, memory.data());
  const double start = processor_time();
  orphans.look();
  const double first = processor_time() - start;
  constexpr int kLooks = 5;
  for (int i = 0; i < kLooks; i++) orphans.look();
  const double later = processor_time() - start - first;
  end(main);
  for (const pid_t sibling : siblings) end(sibling);
  EXPECT_LT(later, kLooks * first / 4);
}

TEST(KillSharers, KillsNoProcessForMemoryThatIsNotShared) {
  int on_the_stack = 0;
  const pid_t child = child_without(nullptr);
  kill_sharers(&on_the_stack);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
  end(child);
}

}  // namespace
}  // namespace amdgpu_criu::restore
