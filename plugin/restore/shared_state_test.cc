// SPDX-License-Identifier: GPL-2.0
#include "restore/shared_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace amdgpu_criu::restore {
namespace {

constexpr std::chrono::milliseconds kPatience{200};
enum Jobs : size_t { kFirst, kSecond, kThird };

// The files of three processes.
class SharedJobs : public testing::Test {
 protected:
  SharedJobs() : state_(std::move(*SharedState::create(layout(), kPatience))) {}

  static Layout layout() {
    std::map<uint32_t, image::Process> processes;
    for (uint32_t index = 0; index < 3; index++) {
      processes[index].index = index;
      processes[index].blob.emplace();
    }
    return Layout(*image::Set::of(std::move(processes), {}));
  }

  SharedState state_;
};

TEST_F(SharedJobs, AWaiterGivesUpIfNoJobMakesProgress) {
  EXPECT_EQ(state_.wait(kSecond).error().code(), ETIMEDOUT);
}

TEST_F(SharedJobs, AWaiterKeepsWaitingWhileAnotherJobIsBeingDone) {
  ASSERT_TRUE(*state_.begin(kFirst));
  std::jthread task([&] {
    std::this_thread::sleep_for(3 * kPatience);
    state_.end(kFirst, true);
    std::this_thread::sleep_for(kPatience / 2);
    EXPECT_TRUE(*state_.begin(kSecond));
    state_.end(kSecond, true);
  });
  const Status status = state_.wait(kSecond);
  EXPECT_TRUE(status.ok()) << status.error().message();
}

TEST_F(SharedJobs, TheFirstFailureOfAllProcessesIsKept) {
  EXPECT_EQ(state_.failure(), "");
  const pid_t task = fork();
  if (task == 0) {
    state_.note_failure(std::string(5000, 'x'));
    _exit(0);
  }
  ASSERT_EQ(waitpid(task, nullptr, 0), task);
  state_.note_failure("later");
  EXPECT_EQ(state_.failure(), std::string(1023, 'x'));
}

TEST_F(SharedJobs, ARestoreThatWasGivenUpIsNotCommitted) {
  const pid_t background = fork();
  if (background == 0) _exit(state_.give_up() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(background, &status, 0), background);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(state_.give_up());
  EXPECT_FALSE(state_.commit());
}

TEST_F(SharedJobs, AFailedJobEndsTheWait) {
  ASSERT_TRUE(*state_.begin(kThird));
  state_.end(kThird, false);
  EXPECT_EQ(state_.wait(kThird).error().code(), ECANCELED);
}

}  // namespace
}  // namespace amdgpu_criu::restore
