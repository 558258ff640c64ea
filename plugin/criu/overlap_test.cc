// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU 4.3 does: contents are saved while CRIU does its own part of a dump.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/statistics.h"
#include "tests/criu_program.h"

namespace amdgpu_criu::criu {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::call;
using testing_support::kRenderPath;

constexpr int kOverlapFile = 7;
constexpr uint64_t kOverlapBytes = 8 * 16384;

// True if our writer, which is adopted here, still runs.
bool has_writer() {
  pid_t ended;
  while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
  return ended == 0;
}

bool writer_ends() {
  const auto end_of_patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (has_writer() && std::chrono::steady_clock::now() < end_of_patience)
    std::this_thread::sleep_for(milliseconds(10));
  return !has_writer();
}

class Overlap : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    machine_has_kfd_ = false;
    has_late_hook_ = true;
    file_ = open(kRenderPath);
    auto& render = state_.renders.emplace_back();
    render.file = std::move(*file_.duplicate());
    render.blob = "file";
    for (uint64_t id = 1; id <= 8; id++) {
      const kernel::Bo bo = testing_support::vram_bo(id, 16384);
      add_object(state_, bo, id);
      render.bos.push_back(bo);
    }
    shared_ = std::move(*Mapping::map(sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS));
    new (shared_.data()) std::atomic<bool>(false);
    testing_support::during_copies = [this] {
      while (!may_copy()) std::this_thread::sleep_for(milliseconds(1));
    };
  }
  void TearDown() override {
    may_copy() = true;
    HooksTest::TearDown();
    testing_support::during_copies = {};
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  // Copies wait for it, in any process.
  std::atomic<bool>& may_copy() {
    return *std::launder(reinterpret_cast<std::atomic<bool>*>(shared_.data()));
  }
  int dump_hooks() {
    if (const int result = start(kStageDump)) return result;
    if (const int result = pause(getpid())) return result;
    return dump_file(file_, kOverlapFile);
  }
  static void lose_memory() {
    struct stat status;
    ASSERT_EQ(stat(kRenderPath, &status), 0);
    testing_support::losses[status.st_rdev]++;
  }
  static int late() { return call<DumpDevicesLate>(kDumpDevicesLate, 1); }

  // Runs the hooks in a process of its own, which then waits.
  pid_t fork_criu() {
    const pid_t criu = fork();
    if (criu != 0) return criu;
    state_.pid = getpid();
    // This process is not dumped there, and has what stands for dma-bufs here.
    setenv("AMDGPU_CRIU_CUT_SHARING", "1", 1);
    if (dump_hooks() == 0) raise(SIGSTOP);
    _exit(1);
  }

  Fd file_;
  Mapping shared_;
};

TEST_F(Overlap, ContentsAreSavedUntilTheLateHook) {
  ASSERT_EQ(dump_hooks(), 0) << log();
  EXPECT_TRUE(has_writer());
  may_copy() = true;
  ASSERT_EQ(late(), 0) << log();
  EXPECT_TRUE(writer_ends());
  EXPECT_TRUE(state_.anything_paused());
  end(kStageDump, 0);
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_THAT(images_.read(kDumpStatistics), HasSubstr(formatted("\"bytes\": {},", kOverlapBytes)));

  std::map<uint64_t, std::string> before;
  for (const auto& [id, memory] : state_.objects) before[id] = contents_of(state_, id);
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd restored(restore_file(kOverlapFile));
  ASSERT_TRUE(restored.valid()) << log();
  EXPECT_EQ(resume(getpid()), 0) << log();
  for (const auto& [id, bytes] : before) EXPECT_EQ(contents_of(state_, id), bytes) << id;
  end(kStageRestore, 0);
}

TEST_F(Overlap, AnErrorFailsTheLateHook) {
  testing_support::fail_copies_after = 3;
  ASSERT_EQ(dump_hooks(), 0) << log();
  may_copy() = true;
  EXPECT_EQ(late(), -EIO);
  end(kStageDump, -EIO);
  EXPECT_THAT(log().substr(log().rfind("Error")), HasSubstr("injected failure of a copy"));
  EXPECT_THAT(images_.names(), IsEmpty());
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_TRUE(writer_ends());
}

// The bytes that a reset has left are not those of the processes.
TEST_F(Overlap, MemoryThatAGpuLosesMeanwhileFailsTheLateHook) {
  lose_memory();  // that counts from the start of the driver
  ASSERT_EQ(dump_hooks(), 0) << log();
  lose_memory();
  may_copy() = true;
  EXPECT_EQ(late(), -ENODATA);
  end(kStageDump, -ENODATA);
  EXPECT_THAT(log(), HasSubstr("renderD5) was reset during the dump, and its memory was lost"));
  EXPECT_THAT(images_.names(), IsEmpty());
  EXPECT_FALSE(state_.anything_paused());
}

TEST_F(Overlap, MemoryThatAGpuHasLostBeforeOrLosesLaterDoesNotMatter) {
  lose_memory();
  ASSERT_EQ(dump_hooks(), 0) << log();
  may_copy() = true;
  ASSERT_EQ(late(), 0) << log();
  lose_memory();
  end(kStageDump, 0);
  EXPECT_THAT(images_.names(), testing::Not(IsEmpty()));
}

// CRIU need not do the rest of its own part.
TEST_F(Overlap, AnErrorFailsTheNextHook) {
  testing_support::fail_copies_after = 0;
  may_copy() = true;
  ASSERT_EQ(dump_hooks(), 0) << log();
  const auto end_of_patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int result = 0;
  while (result == 0 && std::chrono::steady_clock::now() < end_of_patience)
    result = dump_file(file_, kOverlapFile);
  EXPECT_EQ(result, -EIO);
  end(kStageDump, result);
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(Overlap, AFailureOfCriuEndsIt) {
  ASSERT_EQ(dump_hooks(), 0) << log();
  end(kStageDump, -1);
  EXPECT_TRUE(writer_ends());
  EXPECT_THAT(images_.names(), IsEmpty());
  EXPECT_EQ(state_.open_sessions(), 0);
}

TEST_F(Overlap, ASignalInTheLateHookEndsIt) {
  ASSERT_EQ(dump_hooks(), 0) << log();
  std::jthread sender([] {
    std::this_thread::sleep_for(milliseconds(300));
    raise(SIGTERM);
  });
  EXPECT_EQ(late(), -EINTR);
  sender.join();
  EXPECT_TRUE(writer_ends());
  end(kStageDump, -EINTR);
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(Overlap, NothingIsLeftIfASignalOrAKillEndsCriu) {
  for (const int number : {SIGTERM, SIGKILL}) {
    const pid_t criu = fork_criu();
    int status = 0;
    ASSERT_EQ(waitpid(criu, &status, WUNTRACED), criu);
    ASSERT_TRUE(WIFSTOPPED(status));
    EXPECT_THAT(images_.names(), testing::Not(IsEmpty()));
    syscall(SYS_kill, criu, number);
    syscall(SYS_kill, criu, SIGCONT);
    bool criu_ended = false;
    for (pid_t ended = 1; (ended = waitpid(-1, &status, 0)) > 0;)
      criu_ended =
          criu_ended || (ended == criu && WIFSIGNALED(status) && WTERMSIG(status) == number);
    EXPECT_TRUE(criu_ended);
    if (number == SIGTERM) {
      EXPECT_THAT(images_.names(), IsEmpty());
    }
  }
}

// The kernel may kill it for its memory.
TEST_F(Overlap, TheDeathOfTheWriterFailsTheDump) {
  ASSERT_EQ(dump_hooks(), 0) << log();
  syscall(SYS_kill, testing_support::child_of_ours(), SIGKILL);
  EXPECT_EQ(late(), -ECHILD);
  EXPECT_THAT(log(), HasSubstr("the process that saves GPU memory in the background has died"));
  end(kStageDump, -ECHILD);
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(Overlap, ADeadlineOrAnOptionSavesThemInTheHook) {
  may_copy() = true;
  for (const auto& [name, value] :
       {std::pair("AMDGPU_CRIU_TIMEOUT", "60"), std::pair("AMDGPU_CRIU_PARALLEL", "off")}) {
    state_.marked.clear();  // files that the process would have open
    setenv(name, value, 1);
    const int result = dump_hooks();
    unsetenv(name);
    ASSERT_EQ(result, 0) << log();
    EXPECT_TRUE(writer_ends()) << name;
    EXPECT_THAT(log(), HasSubstr("saved 8 BOs"));
    EXPECT_EQ(late(), 0) << log();
    end(kStageDump, 0);
  }
}

}  // namespace
}  // namespace amdgpu_criu::criu
