// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does, for one process that uses /dev/kfd, with a
// kernel and a GPU made of memfds.
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "image/set.h"
#include "restore/reservation.h"
#include "tests/kfd_program.h"
#include "tests/patience.h"

namespace amdgpu_criu::criu {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing_support::call;
using testing_support::kGpu;
using testing_support::kKfdPath;
using testing_support::kRenderPath;
using testing_support::program;
using testing_support::TempDir;

using Hooks = testing_support::KfdHooksTest;
using testing_support::kBytes;
using testing_support::kKfdId;
using testing_support::kOffset;
using testing_support::kOtherGpu;
using testing_support::kOtherMinor;
using testing_support::kRenderId;

TEST_F(Hooks, DumpThenRestoreBringsBackEveryByte) {
  std::map<uint64_t, std::string> before;
  for (const auto& bo : state_.bos) before[bo.object_id] = contents_of(state_, bo.object_id);
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_EQ(program.inventory_calls, 1);

  clear_objects(state_);
  write_topology(0x77, 32);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const int render = restore_file(kRenderId);
  ASSERT_GE(render, 0) << log();
  const Fd render_owner(render);
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid()) << log();
  for (const auto& [id, bytes] : before) EXPECT_EQ(contents_of(state_, id), bytes) << id;
  ASSERT_EQ(state_.restored_devices.size(), 1u);
  EXPECT_EQ(state_.restored_devices[0].gpu_id, kGpu);
  EXPECT_EQ(state_.restored_devices[0].actual_gpu_id, 0x77u);

  const Mapped mapped = update_vma(vma_.data());
  EXPECT_EQ(mapped.result, 1);
  EXPECT_EQ(mapped.offset, kOffset + 0x500000000);
  EXPECT_TRUE(*host::same_file(mapped.file.get(), render));
  EXPECT_EQ(resume(getpid()), 0);
  EXPECT_EQ(state_.resumed, getpid());
  end(kStageRestore, 0);
}

// A test with the same pid in another pid namespace.
TEST(FdStore, OfAnotherTestIsNotInTheWay) {
  const std::string name = formatted("/criu-fdstore-test-{}", getpid());
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const Fd other(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Fails if there is one already.
  (void)bind(other.get(), reinterpret_cast<const sockaddr*>(&address),
             offsetof(sockaddr_un, sun_path) + 1 + name.size());
  testing_support::make_fd_store_known();
  EXPECT_GE(fdstore_add(other.get()), 0);
  testing_support::make_fd_store();
}

// CRIU may wait for the program that it has restored, and keeps its descriptor store.
TEST_F(Hooks, NothingOfOursIsInTheStoreWhenAllIsResumed) {
  ASSERT_EQ(dump(), 0) << log();
  testing_support::make_fd_store_known();
  const Fd of_criu(eventfd(0, EFD_CLOEXEC));
  ASSERT_EQ(fdstore_add(of_criu.get()), 0);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  {
    const Fd render(restore_file(kRenderId)), kfd(restore_file(kKfdId));
    ASSERT_TRUE(kfd.valid()) << log();
  }
  const Fd of_criu_too(eventfd(0, EFD_CLOEXEC));
  const int last = fdstore_add(of_criu_too.get());
  EXPECT_EQ(state_.open_sessions(), 1);
  EXPECT_EQ(resume(getpid()), 0) << log();
  EXPECT_EQ(state_.open_sessions(), 0);
  const Fd first_found(fdstore_get(0)), last_found(fdstore_get(last));
  EXPECT_TRUE(*host::same_file(first_found.get(), of_criu.get()));
  EXPECT_TRUE(*host::same_file(last_found.get(), of_criu_too.get()));
  end(kStageRestore, 0);
}

// Until CRIU has ended the processes: their queues must not write files after the snapshot.
TEST_F(Hooks, GpuWorkIsPausedUntilCriuEnds) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(dump_hooks(), 0) << log();
  EXPECT_EQ(call<DumpFinish>(kDumpFinish, 0), 0);
  CR_PLUGIN_DESC.exit(kStageDump, 0);
  EXPECT_TRUE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 1);
  exit_for_test(0);
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_FALSE(images_.names().empty());
}

// CRIU passes an error of its own, or the status of a script.
TEST_F(Hooks, AnyResultButZeroIsThatOfAFailedDump) {
  for (const int result : {-1, 1})
    for (const bool late : {false, true}) {
      ASSERT_EQ(start(kStageDump), 0);
      ASSERT_EQ(dump_hooks(), 0) << log();
      if (late)
        CR_PLUGIN_DESC.exit(kStageDump, result);
      else
        call<DumpFinish>(kDumpFinish, result);
      EXPECT_FALSE(state_.paused) << result;
      EXPECT_TRUE(images_.names().empty()) << result;
      end(kStageDump, result);
    }
}

// As criu service may do it.
TEST_F(Hooks, TheNextRequestContinuesTheProcessesOfTheFormerOne) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(dump_hooks(), 0) << log();
  CR_PLUGIN_DESC.exit(kStageDump, 0);
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 0);
  end(kStageDump, 0);
}

// An action script has failed at post-dump: CRIU's status is not 0, and the process continues.
TEST_F(Hooks, NoImageIsLeftIfCriuFailsAfterItsLastHook) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(dump_hooks(), 0) << log();
  CR_PLUGIN_DESC.exit(kStageDump, 0);
  EXPECT_FALSE(images_.names().empty());
  program.image_directory = -1;  // CRIU has closed it
  exit_for_test(255);
  EXPECT_TRUE(images_.names().empty());
}

// CRIU 4.1 to 4.3 ask plugins in turn until one answers. Later versions ask all, and the first
// error counts.
template <typename Type, typename... Args>
bool another_is_asked(Hook hook, Args... args) {
  return call<Type>(hook, args...) == -ENOTSUP;
}

TEST_F(Hooks, AnotherPluginIsAskedForWhatIsNotOurs) {
  const Fd null = std::move(*Fd::open("/dev/null", O_RDWR));
  struct stat status;
  fstat(null.get(), &status);
  const pid_t without_gpu = 1;
  for (const bool uses_gpu : {false, true}) {
    ASSERT_EQ(start(kStageDump), 0);
    if (uses_gpu) {
      ASSERT_EQ(pause(getpid()), 0) << log();
    }
    EXPECT_TRUE(another_is_asked<CheckpointDevices>(kCheckpointDevices, without_gpu));
    EXPECT_TRUE(another_is_asked<CheckpointDevices>(kCheckpointDevices, -1));
    EXPECT_TRUE(another_is_asked<DumpExtFile>(kDumpExtFile, null.get(), 1));
    EXPECT_TRUE(another_is_asked<HandleDeviceVma>(kHandleDeviceVma, null.get(), &status));
    EXPECT_EQ(another_is_asked<DumpDevicesLate>(kDumpDevicesLate, 1), !uses_gpu);
    EXPECT_EQ(another_is_asked<DumpFinish>(kDumpFinish, 0), !uses_gpu);
    end(kStageDump, 0);
  }
  ASSERT_EQ(dump(), 0) << log();
  for (const bool ours : {false, true}) {
    program.in_inventory = ours;
    ASSERT_EQ(start(kStageRestore), 0) << log();
    EXPECT_TRUE(another_is_asked<RestoreExtFile>(kRestoreExtFile, 99, nullptr));
    EXPECT_EQ(update_vma(reinterpret_cast<void*>(0x1000)).result, -ENOTSUP);
    EXPECT_TRUE(another_is_asked<PostForking>(kPostForking));
    if (!ours) {
      EXPECT_TRUE(another_is_asked<ResumeDevicesLate>(kResumeDevicesLate, without_gpu));
    }
    end(kStageRestore, -1);
  }
}

// A restore from the stream would not find the images.
TEST_F(Hooks, RefusesADumpIntoAStream) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  images_.file("streamer-capture.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  const Fd streamer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Fd criu(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(streamer.get(), generic, sizeof(address)), 0);
  ASSERT_EQ(listen(streamer.get(), 1), 0);
  ASSERT_EQ(connect(criu.get(), generic, sizeof(address)), 0);
  EXPECT_LT(dump(), 0);
  EXPECT_THAT(log(), HasSubstr("with criu --stream"));
  EXPECT_THAT(state_.calls, Not(Contains("PROCESS_INFO")));
}

TEST_F(Hooks, ALongRestoreReportsItsProgress) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  bool first = true;
  testing_support::during_copies = [&] {
    if (std::exchange(first, false)) usleep(1100 * 1000);
  };
  const Fd kfd(restore_file(kKfdId));
  testing_support::during_copies = {};
  EXPECT_TRUE(kfd.valid()) << log();
  EXPECT_THAT(log(), testing::ContainsRegex("GPU 0x11: [0-9]+ %, 0 of 0 MiB, [0-9]+.[0-9] s"));
  end(kStageRestore, -1);
}

TEST_F(Hooks, LeaksNoDescriptor) {
  const size_t before = testing_support::count_open_files();
  ASSERT_EQ(dump(), 0) << log();
  state_.session_ends.clear();
  state_.marked.clear();
  EXPECT_EQ(testing_support::count_open_files(), before);
  ASSERT_EQ(start(kStageRestore), 0);
  {
    const Fd render(restore_file(kRenderId));
  }
  {
    const Fd kfd(restore_file(kKfdId));
  }
  end(kStageRestore, 0);
  testing_support::make_fd_store();
  state_.session_ends.clear();
  state_.marked.clear();
  EXPECT_EQ(testing_support::count_open_files(), before);
}

// The main promise: after any failure, the process continues.
class FailedDump : public Hooks, public testing::WithParamInterface<const char*> {};

TEST_P(FailedDump, ContinuesTheProcess) {
  state_.failures[GetParam()] = EIO;
  EXPECT_EQ(dump(), -EIO);
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_THAT(log(), HasSubstr(std::string("injected failure of ") + GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Operations, FailedDump,
                         testing::Values("SESSION", "PROCESS_INFO", "CHECKPOINT", "DMABUF"));

TEST_F(Hooks, AFailedCopyFailsTheDumpAndContinuesTheProcess) {
  for (int copies = 0; copies < 15; copies++) {
    testing_support::fail_copies_after = copies;
    EXPECT_EQ(dump(), -EIO) << copies;
    EXPECT_FALSE(state_.paused);
    EXPECT_THAT(log(), HasSubstr("amdgpu-contents-0-11.img"));
    program.log.clear();
  }
  testing_support::fail_copies_after = -1;
  EXPECT_EQ(dump(), 0) << log();
}

TEST_F(Hooks, StateLargerThanAnImageIsRefusedBeforeAnythingIsSaved) {
  state_.announced_blob_size = image::kMaxMetadata;
  EXPECT_EQ(dump(), -EFBIG);
  EXPECT_THAT(log(), HasSubstr("more than the 1073741824 that an image can have"));
  EXPECT_THAT(state_.calls, Not(Contains("CHECKPOINT")));
  EXPECT_FALSE(state_.paused);
  EXPECT_TRUE(images_.names().empty());
}

TEST_F(Hooks, AnIndexLargerThanAnImageIsRefusedBeforeAnythingIsCopied) {
  state_.bos[2].size = 1ull << 42;
  EXPECT_EQ(dump(), -EFBIG);
  EXPECT_THAT(log(), HasSubstr("choose larger chunks by amdgpu.chunk-kib"));
  EXPECT_THAT(state_.calls, Not(Contains("DMABUF")));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, MissingImagesAreAnErrorIfCriusInventoryNamesThePlugin) {
  ASSERT_EQ(dump(), 0) << log();
  for (const std::string& name : images_.names()) std::filesystem::remove(images_.file(name));
  EXPECT_EQ(start(kStageRestore), -ENOENT);
  EXPECT_THAT(log(), HasSubstr("none of its images (amdgpu-*.img)"));
}

TEST_F(Hooks, NoImageIsLeftOfADumpThatFailsLater) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(dump_hooks(), 0) << log();
  ASSERT_FALSE(images_.names().empty());
  end(kStageDump, -1);
  EXPECT_TRUE(images_.names().empty());
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, ARenderNodeThatKfdDoesNotUseIsRefusedByName) {
  const Fd other = open(kRenderPath);
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0);
  EXPECT_EQ(dump_file(other, 9), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("/dev/zero"));
  EXPECT_THAT(log(), HasSubstr("KFD does not use"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, AMappingWithoutABoIsRefused) {
  state_.bos[0].mmap_offset = 0x7000000;
  EXPECT_LT(dump(), 0);
  EXPECT_THAT(log(), HasSubstr("not memory of a BO of any open file"));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, FilesAndMappingsOfOthersAreLeftToOthers) {
  ASSERT_EQ(start(kStageDump), 0);
  const Fd null = std::move(*Fd::open("/dev/null", O_RDWR));
  struct stat status;
  fstat(null.get(), &status);
  EXPECT_EQ(dump_file(null, 1), -ENOTSUP);
  EXPECT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, null.get(), &status), -ENOTSUP);
  EXPECT_EQ(pause(-1), -ENOTSUP);
  end(kStageDump, 0);
  EXPECT_EQ(program.inventory_calls, 0);
}

TEST_F(Hooks, PreDumpPausesNothingAndAcceptsMappings) {
  ASSERT_EQ(start(kStagePreDump), 0);
  struct stat status;
  fstat(render_.get(), &status);
  EXPECT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, render_.get(), &status), 0);
  EXPECT_EQ(pause(getpid()), -ENOTSUP);
  end(kStagePreDump, 0);
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(Hooks, DumpFinishMayComeTwiceAndBeforeExit) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0);
  EXPECT_TRUE(state_.paused);
  EXPECT_EQ(call<DumpFinish>(kDumpFinish, -1), 0);
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(call<DumpFinish>(kDumpFinish, -1), -ENOTSUP);
  end(kStageDump, -1);
}

TEST_F(Hooks, ADamagedChunkNeverReachesTheGpu) {
  ASSERT_EQ(dump(), 0) << log();
  clear_objects(state_);
  const std::string name = "amdgpu-contents-0-11.img";
  std::string bytes = images_.read(name);
  bytes[image::kDataStart] ^= 1;
  images_.write(name, bytes);
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(restore_file(kKfdId), -EBADMSG);
  EXPECT_THAT(log(), HasSubstr(name));
  EXPECT_EQ(contents_of(state_, 1), std::string(5 * 4096, 0));
  end(kStageRestore, -1);
}

TEST_F(Hooks, DamagedMetadataIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log();
  state_.calls.clear();
  std::string bytes = images_.read("amdgpu-process-0.img");
  bytes.back() ^= 1;
  images_.write("amdgpu-process-0.img", bytes);
  EXPECT_EQ(start(kStageRestore), -EBADMSG);
  EXPECT_THAT(log(), HasSubstr("amdgpu-process-0.img"));
  EXPECT_TRUE(state_.calls.empty());
}

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

// This process, which nothing traces, cannot be made to open /dev/kfd again. If KFD reports
// nothing, it has no state, such as amd-smi.
TEST_F(Hooks, RefusesStateOfAKfdFileThatCannotBeOpenedAgain) {
  const std::string process = formatted("{}", getpid());
  std::filesystem::create_directories(kfd_processes_.file(process + "/queues"));
  kfd_processes_.write(process + "/vram_1234", "0\n");
  const auto pause_without_files = [&] {
    kfd_.reset();
    render_.reset();
    vma_ = {};
    const int result = start(kStageDump);
    const int paused = result == 0 ? pause(getpid()) : result;
    end(kStageDump, -1);
    return paused;
  };
  EXPECT_EQ(pause_without_files(), -ENOTSUP) << log();
  kfd_processes_.write(process + "/vram_1234", "8192\n");
  EXPECT_EQ(pause_without_files(), -EINVAL);
  EXPECT_THAT(log(),
              HasSubstr("has 0 queues and 8192 bytes of VRAM of /dev/kfd, but has closed it, "
                        "and cannot open it again for the dump: cannot read the registers"));
  kfd_processes_.write(process + "/vram_1234", "0\n");
  std::filesystem::create_directories(kfd_processes_.file(process + "/queues/0"));
  EXPECT_EQ(pause_without_files(), -EINVAL);
  kfd_ = open(kKfdPath);
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(getpid()), 0) << log();
  end(kStageDump, -1);
}

// CRIU refuses the file after the plugin's part, and its last line does not say why.
TEST_F(Hooks, TheLastLineNamesADeletedFileThatCriuMayHaveRefused) {
  const std::string path = run_.file("nccl-x");
  const Fd file = std::move(*Fd::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(ftruncate(file.get(), 2 << 20), 0);
  const auto mapping = Mapping::map(4096, PROT_READ, MAP_SHARED, file.get());
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(dump_hooks(), 0) << log();
  end(kStageDump, -1);
  const std::string last = log().substr(log().rfind("Error"));
  EXPECT_THAT(last, HasSubstr("the dump has failed: in CRIU's own part, perhaps because process"));
  EXPECT_THAT(last, HasSubstr("nccl-x of 2097152 bytes, and 0 others"));
  EXPECT_THAT(last, HasSubstr("criu dump --ghost-limit 2097152"));
}

// Also if the process itself uses no GPU.
TEST_F(Hooks, RefusesAGpuFileThatOnlyAThreadHas) {
  std::atomic<int> stage = 0;
  std::thread thread([&] {
    ASSERT_EQ(unshare(CLONE_FILES), 0);
    (void)open(kRenderPath).release();
    stage = 1;
    while (stage == 1) usleep(1000);
  });
  while (stage == 0) usleep(1000);
  EXPECT_EQ(dump(), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("of its own, not shared with the first thread"));
  kfd_.reset();
  render_.reset();
  vma_ = {};
  EXPECT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(getpid()), -EINVAL);
  end(kStageDump, -1);
  stage = 2;
  thread.join();
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

TEST_F(Hooks, ImagesThatDoNotAskForThePluginAreLeftAlone) {
  images_.write("amdgpu-process-0.img", "damaged");
  program.in_inventory = false;
  EXPECT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(restore_file(kKfdId), -ENOTSUP);
  EXPECT_EQ(resume(getpid()), -ENOTSUP);
  end(kStageRestore, 0);
}

TEST_F(Hooks, TheLogHasVersionAndOptions) {
  setenv("KFD_CAPABILITY_CHECK", "0", 1);
  ASSERT_EQ(start(kStageDump), 0);
  unsetenv("KFD_CAPABILITY_CHECK");
  EXPECT_THAT(log(),
              testing::ContainsRegex(
                  "amdgpu_criu_plugin [0-9.]+, options: ignore=capability staging-slots=auto "
                  "staging-kib=8 chunk-kib=256 compress=none incremental=off "
                  "gpu-hashes=on io=io_uring direct-io=on cut-sharing=off parallel=on "
                  "replicas=off timeout=0"));
  end(kStageDump, -1);
}

TEST_F(Hooks, AMistakeInTheOptionsFailsOnlyGpuProcesses) {
  ASSERT_EQ(dump(), 0) << log();
  setenv("AMDGPU_CRIU_PARALEL", "off", 1);
  constexpr char kMistake[] = "AMDGPU_CRIU_PARALEL: unknown option amdgpu.paralel";
  program.log.clear();
  EXPECT_EQ(start(kStageDump), 0);
  EXPECT_THAT(log(), HasSubstr(kMistake));
  const Fd null = std::move(*Fd::open("/dev/null", O_RDWR));
  EXPECT_EQ(dump_file(null, 1), -ENOTSUP);
  const pid_t without_gpu = 1;
  EXPECT_EQ(pause(without_gpu), -ENOTSUP);
  end(kStageDump, 0);
  for (const bool paused : {true, false}) {
    program.log.clear();
    ASSERT_EQ(start(kStageDump), 0);
    EXPECT_EQ(paused ? pause(getpid()) : dump_file(render_, kRenderId), -EINVAL);
    EXPECT_FALSE(state_.anything_paused());
    end(kStageDump, -1);
    EXPECT_THAT(log().substr(log().rfind("Error")), HasSubstr(kMistake));
  }
  EXPECT_EQ(start(kStageRestore), -EINVAL);
  program.in_inventory = false;
  EXPECT_EQ(start(kStageRestore), 0);
  end(kStageRestore, 0);
  unsetenv("AMDGPU_CRIU_PARALEL");
}

TEST_F(Hooks, ARestoreHasOptionsOfItsOwn) {
  ASSERT_EQ(dump(), 0) << log();
  std::filesystem::create_directory(run_.file("restore.d"));
  const std::string name = "restore.d/web.conf";
  container_id_ = "web";
  run_.write(name, "timeout = 77\n");
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_THAT(log(), HasSubstr(run_.file(name) + " has options of this restore"));
  EXPECT_THAT(log(), HasSubstr(" timeout=77"));
  end(kStageRestore, -1);
  program.log.clear();
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_THAT(log(), HasSubstr(" timeout=0"));
  end(kStageDump, 0);
}

using RestoreInTasks = testing_support::HooksTest;

TEST_F(RestoreInTasks, TheLastLineOfAFailedRestoreIsTheReasonOfTheTask) {
  use_only_a_render_node(4096);
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(dump_file(state_.renders[0].file, kRenderId), 0) << log();
  end(kStageDump, 0);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const pid_t task = fork();
  if (task == 0) {
    state_.failures["RESTORE"] = EIO;
    _exit(restore_file(kRenderId) == -EIO ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(task, &status, 0), task);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(restore_file(kRenderId), -ECANCELED) << "a consequence, in the main process";
  end(kStageRestore, -1);
  const std::string last = log().substr(log().rfind("Error"));
  EXPECT_THAT(last, HasSubstr("the restore has failed: restoring a GPU file: "));
  EXPECT_THAT(last, HasSubstr("injected failure of RESTORE"));
}

TEST_F(Hooks, AFailedResumeKillsAllTasksWhereCriuWouldIgnoreIt) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0);
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid());
  // A process with another number is not ours. It is killed only after an error.
  EXPECT_EQ(resume(1), -ENOTSUP);
  EXPECT_TRUE(program.killed.empty());
  state_.failures["RESUME"] = EIO;
  EXPECT_EQ(resume(getpid()), -EIO);
  EXPECT_EQ(program.killed, (std::vector<pid_t>{1, getpid()}));
  EXPECT_THAT(log(), HasSubstr("is killed"));
  program.killed.clear();
  EXPECT_EQ(resume(getppid()), -ENOTSUP);
  EXPECT_EQ(program.killed, std::vector<pid_t>{getppid()});
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

TEST_F(Hooks, AMissingTaskFailsTheRestore) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(resume(getpid()), -EPROTO);
  EXPECT_THAT(log(), HasSubstr("/dev/kfd of process"));
  EXPECT_THAT(log(), HasSubstr("was not restored"));
  EXPECT_EQ(program.killed, std::vector<pid_t>{getpid()});
  end(kStageRestore, -1);
}

TEST_F(Hooks, StaleImagesOfAnEarlierDumpAreRemoved) {
  images_.write("amdgpu-file-99.img", "old");
  images_.write("amdgpu-kfd-1.img", "not ours");
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_THAT(images_.names(), Not(Contains("amdgpu-file-99.img")));
  EXPECT_THAT(images_.names(), Contains("amdgpu-kfd-1.img"));
}

TEST_F(Hooks, AMappingThatWasNotSavedIsLeftToOthers) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0);
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid());
  EXPECT_EQ(update_vma(reinterpret_cast<void*>(0x1000)).result, -ENOTSUP);
  end(kStageRestore, 0);
}

TEST_F(Hooks, AMappingThatCannotBeRestoredIsMadeToFail) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0);
  const Fd kfd(restore_file(kKfdId));
  ASSERT_TRUE(kfd.valid());
  testing_support::clear_fd_store();
  const Mapped mapped = update_vma(vma_.data());
  EXPECT_EQ(mapped.result, 1);
  EXPECT_EQ(mapped.offset, ~0xfffull);
  EXPECT_FALSE(mapped.file.valid());
  EXPECT_THAT(log(), HasSubstr("cannot be restored"));
  end(kStageRestore, -1);
}

}  // namespace
}  // namespace amdgpu_criu::criu
