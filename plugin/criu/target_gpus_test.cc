// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does for a restore: the GPUs that it chooses,
// their memory, and its loss.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "restore/reservation.h"
#include "tests/kfd_program.h"
#include "tests/patience.h"

namespace amdgpu_criu::criu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::kGpu;
using testing_support::kRenderPath;
using testing_support::program;

using Hooks = testing_support::KfdHooksTest;
using testing_support::kBytes;
using testing_support::kKfdId;
using testing_support::kOtherGpu;
using testing_support::kOtherMinor;
using testing_support::kRenderId;

TEST_F(Hooks, AGpuWithoutRoomIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log();
  state_.calls.clear();
  testing_support::make_fd_store_known();
  state_.available[kGpu] = kBytes - 1;
  EXPECT_EQ(start(kStageRestore), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("MiB of VRAM are needed, 0 MiB are free"));
  EXPECT_TRUE(state_.calls.empty());
  state_.available[kGpu]++;
  EXPECT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, -1);
}

TEST_F(Hooks, WaitsForTheMemoryThatAnotherRestoreIsAboutToTake) {
  ASSERT_EQ(dump(), 0) << log();
  testing_support::make_fd_store_known();
  state_.available[kGpu] = 2 * kBytes - 1;
  const Fd ready(eventfd(0, EFD_CLOEXEC)), ends(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const pid_t other = fork();
  if (other == 0) {
    auto reservation = restore::Reservation::begin(run_.path());
    if (!reservation.ok() || !reservation->take({{kGpu, kBytes}}).ok()) _exit(1);
    eventfd_write(ready.get(), 1);
    usleep(300 * 1000);
    eventfd_write(ends.get(), 1);
    _exit(0);
  }
  eventfd_t value;
  eventfd_read(ready.get(), &value);
  EXPECT_EQ(start(kStageRestore), 0) << log();
  EXPECT_EQ(eventfd_read(ends.get(), &value), 0) << "it has not waited";
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
  end(kStageRestore, -1);
  EXPECT_THAT(run_.names(), ElementsAre("turn"));
}

// As soon after the dump, when the kernel has not yet freed the memory of the killed process.
TEST_F(Hooks, StaysOnItsGpuIfMemoryIsFreedSoon) {
  ASSERT_EQ(dump(), 0) << log();
  testing_support::make_fd_store_known();
  write_topology(kOtherGpu, 32, kOtherMinor);
  state_.available = {{kGpu, 2 * kBytes - 1}, {kOtherGpu, 2 * kBytes}};
  for (const bool soon : {true, false}) {
    const pid_t other = fork();
    if (other == 0) {
      auto reservation = restore::Reservation::begin(run_.path());
      if (!reservation.ok() || !reservation->take({{kGpu, kBytes}}).ok()) _exit(1);
      usleep(soon ? 100 * 1000 : 100 * 1000 * 1000);
      _exit(0);
    }
    while (run_.names().size() < 2) usleep(1000);
    ASSERT_EQ(start(kStageRestore), 0) << log();
    EXPECT_THAT(log(), HasSubstr(formatted("GPU {:#x} of the images is restored on GPU {:#x}", kGpu,
                                           soon ? kGpu : kOtherGpu)));
    syscall(SYS_kill, other, SIGKILL);
    EXPECT_EQ(waitpid(other, nullptr, 0), other);
    end(kStageRestore, -1);
  }
}

TEST_F(Hooks, DoesNotWaitForMemoryOfOthersAfterItsDeadline) {
  ASSERT_EQ(dump(), 0) << log();
  testing_support::make_fd_store_known();
  state_.available[kGpu] = 2 * kBytes - 1;
  const pid_t other = fork();
  if (other == 0) {
    auto reservation = restore::Reservation::begin(run_.path());
    if (!reservation.ok() || !reservation->take({{kGpu, kBytes}}).ok()) _exit(1);
    while (true) ::pause();
  }
  while (run_.names().size() < 2) usleep(1000);
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(start(kStageRestore), -ETIME) << log();
  EXPECT_LT(std::chrono::steady_clock::now() - before,
            testing_support::patient(std::chrono::seconds(4)));
  syscall(SYS_kill, other, SIGKILL);
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
}

// The kernel counts the memory as used from then on.
TEST_F(Hooks, ReservesNoMemoryThatATaskHasAllocated) {
  ASSERT_EQ(dump(), 0) << log();
  testing_support::make_fd_store_known();
  state_.available[kGpu] = kBytes;
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const auto reserved = [&] {
    const pid_t other = fork();
    if (other == 0) {
      auto next = restore::Reservation::begin(run_.path());
      _exit(next.ok() && next->of_others()[kGpu] > 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(other, &status, 0), other);
    return WEXITSTATUS(status) != 0;
  };
  EXPECT_TRUE(reserved());
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  EXPECT_FALSE(reserved());
  end(kStageRestore, -1);
}

TEST_F(Hooks, AGpuThatTakesNoCopiesIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log();
  state_.calls.clear();
  testing_support::copies_are_refused = true;
  EXPECT_EQ(start(kStageRestore), -ENOTSUP);
  EXPECT_THAT(log(), HasSubstr("GPU 0x11: no copies"));
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(Hooks, AGpuThatTakesNoCopiesCarriesAProcessWithoutMemory) {
  testing_support::copies_are_refused = true;
  for (kernel::Bo& bo : state_.bos) bo.flags = 0;
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, -1);
}

TEST_F(Hooks, AGpuThatDoesNotFitIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log();
  state_.calls.clear();
  write_topology(0x77, 64);
  EXPECT_EQ(start(kStageRestore), -ENODEV);
  EXPECT_THAT(log(), HasSubstr("simd_count was 0x20, is 0x40"));
  EXPECT_TRUE(state_.calls.empty());
}

// KFD gives each process that opens it every GPU that its device cgroup allows.
class UnusedGpu : public Hooks {
 protected:
  void SetUp() override {
    Hooks::SetUp();
    write_topology(kOtherGpu, 32, kOtherMinor);
    state_.devices.push_back({kOtherGpu, kOtherGpu, -1});
    ASSERT_EQ(dump(), 0) << log();
    testing_support::clear_objects(state_);
  }
  // The gpu_ids of this machine that the kernel is asked for, in the order of the images.
  std::vector<uint32_t> restored_on() {
    EXPECT_EQ(start(kStageRestore), 0) << log();
    const Fd render(restore_file(kRenderId)), kfd(restore_file(kKfdId));
    EXPECT_TRUE(kfd.valid() && render.valid()) << log();
    EXPECT_EQ(resume(getpid()), 0) << log();
    end(kStageRestore, 0);
    std::vector<uint32_t> result;
    for (const auto& device : state_.restored_devices) result.push_back(device.actual_gpu_id);
    return result;
  }
};

TEST_F(UnusedGpu, IsOneOfThisMachineIfThereIsOne) {
  EXPECT_THAT(restored_on(), ElementsAre(kGpu, kOtherGpu));
  EXPECT_THAT(log(), HasSubstr("GPU 0x12 of the images, which no process uses, is GPU 0x12 here"));
}

TEST_F(UnusedGpu, IsLeftOutWhereThereAreTooFew) {
  std::filesystem::remove_all(topology_.file(std::to_string(kOtherMinor)));
  EXPECT_THAT(restored_on(), ElementsAre(kGpu, 0));
  EXPECT_THAT(log(), HasSubstr("GPU 0x12 of the images, which no process uses, is left out"));
}

// The other one would be its first choice.
TEST_F(UnusedGpu, LeavesTheLastOneToAGpuThatIsUsed) {
  std::filesystem::remove_all(topology_.file(std::to_string(testing_support::kRenderMinor)));
  EXPECT_THAT(restored_on(), ElementsAre(kOtherGpu, 0));
}

// The engine sets the device rules after the restore, so KFD lists both GPUs again in the next
// dump.
TEST_F(UnusedGpu, IsNotOneThatTheContainerLacks) {
  container_config_ = run_.file("config.json");
  run_.write("config.json",
             formatted(R"({{"linux": {{"devices": [{{"path": "/dev/dri/renderD128", "type": "c",
               "major": 1, "minor": {}}}]}}}})",
                       kOtherMinor));
  EXPECT_THAT(restored_on(), ElementsAre(kOtherGpu, 0));
}

TEST_F(UnusedGpu, IsNotOneThatTheTaskMayNotOpen) {
  dri_directory_ = run_.file("dri");
  std::filesystem::create_directory(dri_directory_);
  std::filesystem::create_symlink(kRenderPath, dri_directory_ + "/renderD128");
  EXPECT_THAT(restored_on(), ElementsAre(kGpu, 0));
}

// A process that has opened /dev/kfd, and no more.
TEST_F(Hooks, AGpuIsFoundEvenIfNoneIsUsed) {
  vma_ = Mapping();
  render_ = Fd();
  state_.devices = {{kGpu, kGpu, -1}};
  state_.bos.clear();
  state_.objects.clear();
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(dump_file(kfd_, kKfdId), 0) << log();
  end(kStageDump, 0);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  ASSERT_EQ(state_.restored_devices.size(), 1u);
  EXPECT_EQ(state_.restored_devices[0].actual_gpu_id, kGpu);
  end(kStageRestore, 0);
}

// Loses the memory of GPUs at one moment of a restore.
class LostMemory : public Hooks {
 protected:
  void SetUp() override {
    Hooks::SetUp();
    lose(kRenderPath);  // that counts from the start of the driver
    ASSERT_EQ(dump(), 0) << log();
    testing_support::clear_objects(state_);
    ASSERT_EQ(start(kStageRestore), 0) << log();
  }
  static void lose(const char* path) {
    struct stat status;
    ASSERT_EQ(stat(path, &status), 0);
    testing_support::losses[status.st_rdev]++;
  }
  bool restores_files() {
    const Fd render(restore_file(kRenderId)), kfd(restore_file(kKfdId));
    return render.valid() && kfd.valid();
  }
  void expect_refused(int result) {
    EXPECT_EQ(result, -ENODATA);
    EXPECT_THAT(log(),
                HasSubstr("GPU 0x11 (0000:00:00.0, renderD5) was reset during the restore, and "
                          "its memory was lost: restore once more"));
    end(kStageRestore, -1);
  }
};

TEST_F(LostMemory, BeforeTheFirstFileFailsTheTask) {
  lose(kRenderPath);
  const int file = restore_file(kRenderId);
  expect_refused(file);
}

TEST_F(LostMemory, AfterTheContentsAreFilledFailsTheRestore) {
  ASSERT_TRUE(restores_files()) << log();
  lose(kRenderPath);
  const int result = resume(getpid());
  EXPECT_EQ(state_.resumed, 0);
  EXPECT_EQ(program.killed, std::vector<pid_t>{getpid()});
  expect_refused(result);
}

TEST_F(LostMemory, DuringResumeFailsTheRestore) {
  ASSERT_TRUE(restores_files()) << log();
  state_.before_resume = [] { lose(kRenderPath); };
  expect_refused(resume(getpid()));
}

TEST_F(LostMemory, IsTheReasonIfResumeFails) {
  ASSERT_TRUE(restores_files()) << log();
  state_.before_resume = [] { lose(kRenderPath); };
  state_.failures["RESUME"] = EIO;
  expect_refused(resume(getpid()));
}

TEST_F(LostMemory, OfAnotherGpuDoesNotMatter) {
  lose(testing_support::kOtherPath);
  ASSERT_TRUE(restores_files()) << log();
  EXPECT_EQ(resume(getpid()), 0) << log();
  lose(kRenderPath);
  end(kStageRestore, 0);
}

}  // namespace
}  // namespace amdgpu_criu::criu
