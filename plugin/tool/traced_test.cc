// SPDX-License-Identifier: GPL-2.0
#include "tool/traced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <new>
#include <thread>

#include "base/fd.h"
#include "tests/refused_call.h"

namespace amdgpu_criu::tool {
namespace {

// Counters that a child, its thread and its own child increment until they are killed.
class Counting {
 public:
  Counting() {
    pid_ = fork();
    if (pid_ == 0) {
      if (fork() == 0) count(2);
      std::thread([this] { count(1); }).detach();
      count(0);
    }
    while (!all_moved({})) usleep(1000);
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  ~Counting() {
    shared().stop = true;
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  std::array<unsigned, 3> counts() const {
    return {shared().counts[0], shared().counts[1], shared().counts[2]};
  }
  bool all_moved(const std::array<unsigned, 3>& since) const {
    const auto now = counts();
    return now[0] != since[0] && now[1] != since[1] && now[2] != since[2];
  }

 private:
  struct Shared {
    std::atomic<unsigned> counts[3];
    std::atomic<bool> stop;
  };
  Shared& shared() const { return *std::launder(reinterpret_cast<Shared*>(memory_.data())); }
  [[noreturn]] void count(int which) {
    for (; !shared().stop; usleep(100)) shared().counts[which]++;
    _exit(0);
  }

  Mapping memory_ =
      std::move(*Mapping::map(sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  pid_t pid_;
};

TEST(StoppedTree, StopsAllThreadsAndChildrenUntilItIsDestroyed) {
  const Counting counting;
  std::array<unsigned, 3> stopped_at{};
  {
    const auto tree = StoppedTree::stop(counting.pid());
    ASSERT_TRUE(tree.ok()) << tree.error().message();
    EXPECT_EQ(tree->pids().size(), 2u);
    stopped_at = counting.counts();
    usleep(20'000);
    EXPECT_EQ(counting.counts(), stopped_at);
  }
  while (!counting.all_moved(stopped_at)) usleep(1000);
}

// A build, for example, or a shell script.
TEST(StoppedTree, MayHaveChildrenThatEndMeanwhile) {
  const pid_t parent = fork();
  if (parent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 4; i++)
      if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        break;
      }
    for (;;)
      if (const pid_t child = fork(); child == 0)
        _exit(0);
      else
        waitpid(child, nullptr, 0);
  }
  usleep(10'000);
  std::string problem;
  for (int i = 0; i < 30 && problem.empty(); i++) {
    const auto tree = StoppedTree::stop(parent);
    if (!tree.ok()) problem = tree.error().message();
  }
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_EQ(problem, "");
}

TEST(StoppedTree, DoesNotWaitForAThreadThatCannotStop) {
  const pid_t parent = fork();
  if (parent == 0) {
    if (vfork() == 0) {
      pause();
      _exit(0);
    }
    _exit(0);
  }
  std::string state;
  while (!state.ends_with(") D")) {
    usleep(1000);
    std::ifstream stat(formatted("/proc/{}/stat", parent));
    std::getline(stat, state);
    state.resize(std::min(state.size(), state.rfind(')') + 3));
  }
  {
    const auto tree = StoppedTree::stop(parent, std::chrono::milliseconds(100));
    ASSERT_FALSE(tree.ok());
    EXPECT_THAT(tree.error().message(),
                testing::HasSubstr("does not stop: it waits in the kernel"));
  }
  std::ifstream children(formatted("/proc/{}/task/{}/children", parent, parent));
  pid_t child = 0;
  children >> child;
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
}

TEST(Tree, ThatMayNotBeListedIsNotAMissingProcess) {
  const auto list = [] { EXPECT_EQ(tree_of(getpid()).error().code(), EACCES); };
  ASSERT_TRUE(testing_support::without({SYS_openat, O_DIRECTORY, EACCES}, list));
  EXPECT_EQ(tree_of(1 << 30).error().code(), ESRCH);
}

TEST(StoppedTree, NamesAMissingProcess) {
  const auto tree = StoppedTree::stop(1 << 30);
  ASSERT_FALSE(tree.ok());
  EXPECT_THAT(tree.error().message(), testing::HasSubstr("no process 1073741824"));
}

}  // namespace
}  // namespace amdgpu_criu::tool
