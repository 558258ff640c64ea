// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, for a process that has closed /dev/kfd.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "image/set.h"
#include "tests/kfd_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing_support::call;
using testing_support::kKfdId;
using testing_support::program;

// A process without a file of a GPU node, traced and stopped as by CRIU.
class HooksOfAProcessWithoutFiles : public testing_support::KfdHooksTest {
 protected:
  void SetUp() override {
    KfdHooksTest::SetUp();
    child_ = fork();
    if (child_ == 0) {
      vma_ = {};
      close_range(3, ~0u, 0);
      for (;;) ::pause();
    }
    state_.pid = child_;
    std::filesystem::create_directories(kfd_processes_.file(formatted("{}/queues", child_)));
    ASSERT_EQ(ptrace(PTRACE_SEIZE, child_, nullptr, nullptr), 0) << strerror(errno);
    while (files() != before_) usleep(1000);
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, child_, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(child_, nullptr, __WALL), child_);
  }
  void TearDown() override {
    syscall(SYS_kill, child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    KfdHooksTest::TearDown();
  }
  std::set<int> files() const {
    std::set<int> result;
    for (const auto& entry : std::filesystem::directory_iterator(formatted("/proc/{}/fd", child_)))
      result.insert(std::stoi(entry.path().filename()));
    return result;
  }

  static constexpr int kFirstFree = 3;
  const std::set<int> before_{0, 1, 2};
  pid_t child_ = 0;
};

TEST_F(HooksOfAProcessWithoutFiles, OpensKfdForTheTimeOfTheDump) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(child_), 0) << log();
  EXPECT_EQ(files(), (std::set<int>{0, 1, 2, kFirstFree}));
  const Fd kfd = Pidfd::find(child_).take_descriptor(kFirstFree);
  ASSERT_EQ(dump_file(kfd, kKfdId), 0) << log();
  end(kStageDump, 0);
  EXPECT_EQ(files(), before_);
  const auto images = image::Set::load(images_.fd());
  ASSERT_TRUE(images.ok()) << images.error().message();
  EXPECT_EQ(images->processes().at(0).opened, static_cast<uint32_t>(kFirstFree));
}

// Else its BOs would be shared with a process that is not paused.
TEST_F(HooksOfAProcessWithoutFiles, OutsideIsAskedWhenTheFileThatOnlyKfdHasIsPaused) {
  state_.features |= AMDGPU_CRIU_FEATURE_RENDER;
  testing_support::FakeRender& file = state_.renders.emplace_back();
  file.file = std::move(*render_.duplicate());
  file.bos = {state_.bos.front()};
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(child_), 0) << log();
  EXPECT_FALSE(file.paused);
  struct stat status;
  fstat(render_.get(), &status);
  ASSERT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, 0, &status), 0) << log();
  EXPECT_TRUE(file.paused);
  const auto outside = std::ranges::find(state_.calls, "OUTSIDE");
  ASSERT_NE(outside, state_.calls.end());
  EXPECT_EQ(std::find(outside, state_.calls.end(), "PROCESS_INFO"), state_.calls.end());
  end(kStageDump, 0);
}

TEST_F(HooksOfAProcessWithoutFiles, AFailedDumpClosesWhatItHasOpened) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(child_), 0) << log();
  EXPECT_NE(files(), before_);
  end(kStageDump, -1);
  EXPECT_EQ(files(), before_);
  EXPECT_FALSE(state_.paused);
}

TEST_F(HooksOfAProcessWithoutFiles, AnOpenThatWasOnlyClosedAgainIsNoState) {
  state_.devices.clear();
  state_.bos.clear();
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(child_), -ENOTSUP) << log();
  EXPECT_EQ(files(), before_);
  EXPECT_FALSE(state_.paused);
  end(kStageDump, 0);
  EXPECT_EQ(program.inventory_calls, 0);
}

}  // namespace
}  // namespace amdgpu_criu::criu
