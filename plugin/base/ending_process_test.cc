// SPDX-License-Identifier: GPL-2.0
#include "base/ending_process.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

namespace amdgpu_criu {
namespace {

// A child, which is killed at the end.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ == 0) {
      body();
      _exit(0);
    }
    process_ = Pidfd::find(pid_);
  }
  ~Child() {
    process_.signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  const Pidfd& process() const { return process_; }

 private:
  pid_t pid_;
  Pidfd process_;
};

void work() {
  for (volatile unsigned i = 0;; i = i + 1) continue;
}
void sleep_forever() {
  while (true) pause();
}

// True if it is busy in one of the looks.
bool is_busy_in(EndingProcess& ending, int looks) {
  bool busy = false;
  for (int i = 0; i < looks; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    busy = ending.is_busy() || busy;
  }
  return busy;
}

TEST(EndingProcess, OneThatHasWorkIsBusy) {
  const Child child(work);
  EndingProcess ending(child.process().pid());
  for (int i = 0; i < 10; i++) EXPECT_TRUE(ending.is_busy());
}

TEST(EndingProcess, OneThatIsBlockedIsNot) {
  const Child child(sleep_forever);
  EndingProcess ending(child.process().pid());
  while (is_busy_in(ending, 5)) continue;  // it starts
  EXPECT_FALSE(is_busy_in(ending, 10));
}

TEST(EndingProcess, OneThatWorksInAnotherThreadIsBusy) {
  const Child child([] {
    std::thread worker(work);
    worker.join();
  });
  EndingProcess ending(child.process().pid());
  int looks = 0;  // one after the other, between which no CPU time is counted
  for (int i = 0; i < 1000 && looks < 10; i++) {
    if (looks == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it starts
    looks = ending.is_busy() ? looks + 1 : 0;
  }
  EXPECT_EQ(looks, 10);
}

// The line of the groups is longer than what is read at once.
TEST(PendingSignals, AreFoundBehindManyGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to have groups";
  const Child child([] {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    const std::vector<gid_t> groups(2000, 4000000000);
    if (setgroups(groups.size(), groups.data()) == 0) raise(SIGTERM);
    sleep_forever();
  });
  while (pending_signals(child.process().pid()) == 0) usleep(1000);
  EXPECT_EQ(pending_signals(child.process().pid()), 1u << (SIGTERM - 1));
}

TEST(PendingSignals, OfAProcessThatDoesNotExistAreNone) { EXPECT_EQ(pending_signals(-1), 0u); }

TEST(EndingProcess, OneThatDoesNotExistIsNotBusy) {
  EndingProcess ending(-1);
  EXPECT_FALSE(ending.is_busy());
}

TEST(EndingProcess, IsWaitedFor) {
  const Child child(sleep_forever);
  EXPECT_FALSE(has_ended(child.process()));
  EXPECT_FALSE(wait_for_end(child.process()));
  child.process().signal(SIGKILL);
  EXPECT_TRUE(wait_for_end(child.process()));
  EXPECT_TRUE(has_ended(child.process()));
}

}  // namespace
}  // namespace amdgpu_criu
