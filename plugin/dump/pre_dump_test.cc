// SPDX-License-Identifier: GPL-2.0
// Copies of the memory of a child that has this process's files, with a kernel made of memfds.
#include "dump/pre_dump.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/set.h"
#include "tests/criu_program.h"

namespace amdgpu_criu::dump {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::kRenderPath;

int directory;

class PreDumping : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    state_.features |= AMDGPU_CRIU_FEATURE_LIVE;
    directory = images_.fd();
    render_ = open(kRenderPath);
    auto& fake = state_.renders.emplace_back();
    fake.file = std::move(*render_.duplicate());
    for (uint64_t id = 1; id <= 3; id++) {
      kernel::Bo bo = testing_support::vram_bo(id, 0x1000 * id);
      // A BO of another GPU.
      if (id == 3) bo.flags |= AMDGPU_CRIU_BO_IMPORTED;
      fake.bos.push_back(bo);
      add_object(state_, bo, 1);
    }
    child_ = fork();
    if (child_ == 0) {
      close_others();
      raise(SIGSTOP);
      _exit(0);
    }
    waitpid(child_, nullptr, WUNTRACED);
  }
  void TearDown() override {
    syscall(SYS_kill, child_, SIGKILL);  // kill() is not libc's here
    waitpid(child_, nullptr, 0);
    testing_support::fail_copies_after = -1;
    HooksTest::TearDown();
  }

  // Descriptors that earlier tests leave open until the program ends.
  void close_others() const {
    for (int fd = 3; fd < 1024; fd++) {
      const auto same = host::same_file(fd, render_.get());
      if (fd != render_.get() && same.ok() && !*same) close(fd);
    }
  }

  Status pre_dump() {
    const host::Host host = host::Host::create(host_config());
    const auto api = make_fake_api(state_);
    PreDump dump(
        {*api, host, testing_support::make_fake_engine, {}, [] { return Result<int>(directory); }});
    TRY(dump.add(child_));
    TRY(dump.save());
    bytes_ = dump.counts().bytes;
    return {};
  }

  Fd render_;
  pid_t child_ = 0;
  uint64_t bytes_ = 0;
};

TEST_F(PreDumping, CopiesWithoutAPause) {
  ASSERT_TRUE(pre_dump().ok());
  EXPECT_EQ(bytes_, 0x3000u);
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_THAT(state_.calls, Not(Contains("UNPAUSE")));
  EXPECT_EQ(state_.open_sessions(), 0);
  const auto files = image::load_contents(directory);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 1u);
  for (const image::Object& object : files->front().contents.objects)
    EXPECT_EQ(object.hashes.size(), object.chunks.size());
}

TEST_F(PreDumping, NeedsAKernelThatListsMemory) {
  state_.features &= ~AMDGPU_CRIU_FEATURE_LIVE;
  const Status status = pre_dump();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), EOPNOTSUPP);
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(PreDumping, DoesNotReplaceADump) {
  constexpr char kName[] = "amdgpu-process-0.img";
  const Fd file(openat(directory, kName, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const Status status = pre_dump();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr(kName));
  EXPECT_THAT(images_.names(), ElementsAre(kName));
}

TEST_F(PreDumping, WritesNothingBesideADumpThatRuns) {
  const Fd other(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const Status status = pre_dump();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), EBUSY);
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(PreDumping, LeavesNoIncompleteImage) {
  testing_support::fail_copies_after = 0;
  const Status status = pre_dump();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), EIO);
  EXPECT_THAT(images_.names(), IsEmpty());
}

}  // namespace
}  // namespace amdgpu_criu::dump
