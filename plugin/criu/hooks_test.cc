// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does, for a dump of one process that uses
// /dev/kfd, with a kernel and a GPU made of memfds.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "criu/program.h"
#include "image/set.h"
#include "tests/kfd_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing_support::call;
using testing_support::kKfdPath;
using testing_support::kRenderPath;
using testing_support::program;

using Hooks = testing_support::KfdHooksTest;
using testing_support::kKfdId;
using testing_support::kRenderId;

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

// CRIU's socket, which is connected to that of a server.
struct Connection {
  // path: with a 0 at its end if there is room
  void make(const std::string& path) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_LE(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    ASSERT_EQ(bind(server.get(), generic, sizeof(address)), 0);
    ASSERT_EQ(listen(server.get(), 1), 0);
    ASSERT_EQ(connect(criu.get(), generic, sizeof(address)), 0);
  }
  Fd server{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  Fd criu{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
};

// A restore from the stream would not find the images.
TEST_F(Hooks, RefusesADumpIntoAStream) {
  Connection connection;
  ASSERT_NO_FATAL_FAILURE(connection.make(images_.file("streamer-capture.sock")));
  EXPECT_LT(dump(), 0);
  EXPECT_THAT(log(), HasSubstr("with criu --stream"));
  EXPECT_THAT(state_.calls, Not(Contains("PROCESS_INFO")));
}

// Its path fills the address of a socket.
TEST_F(Hooks, ASocketOfALongPathIsNeitherAStreamNorAStore) {
  std::string path = images_.file("");
  path.resize(sizeof(sockaddr_un::sun_path), 'x');
  Connection connection;
  ASSERT_NO_FATAL_FAILURE(connection.make(path));
  EXPECT_FALSE(streams_images());
  EXPECT_FALSE(make_fd_store()->is_ready());
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

// CRIU is a C program. Destructors log, too.
TEST_F(Hooks, LackOfMemoryForALineOfTheLogEndsNoHook) {
  program.log_throws = true;
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(dump_hooks(), 0);
  end(kStageDump, 0);
  state_.marked.clear();
  state_.failures["CHECKPOINT"] = EIO;
  EXPECT_EQ(dump(), -EIO);
  program.log_throws = false;
  EXPECT_FALSE(state_.paused);
}

// If the process has closed the node of a GPU, its losses are counted only after CHECKPOINT.
TEST_F(Hooks, RefusesMemoryThatIsLostWhileItsStateIsRead) {
  const Fd drm_file = open("/dev/null");
  state_.devices = {{testing_support::kGpu, testing_support::kGpu, drm_file.get()}};
  vma_ = {};
  render_.reset();
  const auto dump_kfd = [&] {
    int result = start(kStageDump);
    if (result == 0) result = pause(getpid());
    if (result == 0) result = dump_file(kfd_, kKfdId);
    end(kStageDump, result);
    return result;
  };
  ASSERT_EQ(dump_kfd(), 0) << log();
  state_.marked.clear();  // files that the process would have open
  state_.after_checkpoint = [this] { state_.memory_lost = true; };
  EXPECT_EQ(dump_kfd(), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("memory that a reset of the GPU has lost"));
  EXPECT_TRUE(images_.names().empty());
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

TEST_F(Hooks, StaleImagesOfAnEarlierDumpAreRemoved) {
  images_.write("amdgpu-file-99.img", "old");
  images_.write("amdgpu-kfd-1.img", "not ours");
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_THAT(images_.names(), Not(Contains("amdgpu-file-99.img")));
  EXPECT_THAT(images_.names(), Contains("amdgpu-kfd-1.img"));
}

}  // namespace
}  // namespace amdgpu_criu::criu
