// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does, with a kernel and a GPU made of memfds.
// /dev/full plays /dev/kfd and /dev/zero plays a render node: what matters is their numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include <cstdarg>

#include "criu/abi.h"
#include "criu/plugin.h"
#include "image/set.h"
#include "tests/fakes.h"
#include "tests/temp_dir.h"

extern "C" criu::Descriptor CR_PLUGIN_DESC;

namespace {

// The criu program as these tests play it.
int image_directory = -1;
int inventory_calls = 0;
bool in_inventory = true;
std::string log_text;
std::vector<base::Fd> stored;
pid_t killed = 0;

}  // namespace

extern "C" {
// In the place of libc's: only the plugin calls it here.
int kill(pid_t pid, int) noexcept { return killed = pid, 0; }
int criu_get_image_dir(void) { return image_directory; }
int add_inventory_plugin(const char*) { return inventory_calls++, 0; }
bool check_and_remove_inventory_plugin(const char*, size_t) { return in_inventory; }
int fdstore_add(int fd) {
  stored.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return stored.size() - 1;
}
int fdstore_get(int id) { return fcntl(stored.at(id).get(), F_DUPFD_CLOEXEC, 0); }
void print_on_level(unsigned, const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  log_text += line;
}
}

namespace criu {
namespace {

using base::Fd;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing_support::FakeState;
using testing_support::TempDir;

constexpr uint32_t kGpu = 0x11;
constexpr unsigned kRenderMinor = 5;  // of /dev/zero
constexpr uint64_t kOffset = 0x10000;
constexpr int kKfdId = 0x21;
constexpr int kRenderId = 0x22;

template <typename Type, typename... Args>
int call(Hook hook, Args... args) {
  return reinterpret_cast<Type*>(CR_PLUGIN_DESC.hooks[hook])(args...);
}

class Hooks : public testing::Test {
 protected:
  void SetUp() override {
    image_directory = images_.fd();
    inventory_calls = 0;
    in_inventory = true;
    log_text.clear();
    killed = 0;
    testing_support::fail_copies_after = -1;
    write_topology(kGpu, 32);
    kfd_ = std::move(*Fd::open("/dev/full", O_RDWR));
    render_ = std::move(*Fd::open("/dev/zero", O_RDWR));
    vma_ = std::move(*base::Mapping::map(8192, PROT_READ, MAP_PRIVATE, render_.get(), kOffset));
    state_.pid = getpid();
    state_.devices = {{kGpu, kGpu, render_.get()}};
    state_.blob = {std::byte{'b'}, std::byte{'l'}};
    for (uint64_t id = 1; id <= 3; id++) {
      kernel::Bo bo{};
      bo.object_id = id;
      bo.size = 4096 * (5 * id);
      bo.mmap_offset = id == 1 ? kOffset : kOffset + id * 0x100000;
      bo.gpu_id = kGpu;
      bo.domain = AMDGPU_CRIU_DOMAIN_VRAM;
      bo.flags = AMDGPU_CRIU_BO_CONTENTS;
      add_object(state_, bo, id);
    }
  }
  void TearDown() override { stored.clear(); }

  void write_topology(uint32_t gpu_id, int simds) {
    const std::string node = topology_.file("1");
    std::filesystem::create_directories(node);
    std::ofstream(node + "/gpu_id") << gpu_id;
    std::ofstream(node + "/properties")
        << "simd_count " << simds << "\ndrm_render_minor " << kRenderMinor << "\n";
  }

  int start(int stage) {
    setenv("AMDGPU_CRIU_STAGING_KIB", "8", 1);
    host::Config host;
    host.kfd_path = "/dev/full";
    host.kfd_device = makedev(1, 7);
    host.dri_directory = "/dev";
    host.topology_nodes = topology_.path();
    host.render_major = 1;
    host.first_render_minor = kRenderMinor;
    set_parts_for_test(
        {testing_support::make_fake_api(state_), host, testing_support::make_fake_engine});
    return CR_PLUGIN_DESC.init(stage);
  }
  void end(int stage, int result) { CR_PLUGIN_DESC.exit(stage, result); }

  // As CRIU: ends at the first error, and calls exit in any case.
  int dump() {
    int result = start(kStageDump);
    if (result == 0) result = dump_hooks();
    end(kStageDump, result);
    return result;
  }
  int dump_hooks() {
    if (int r = call<CheckpointDevices>(kCheckpointDevices, getpid())) return r;
    struct stat status;
    fstat(render_.get(), &status);
    if (int r = call<HandleDeviceVma>(kHandleDeviceVma, render_.get(), &status)) return r;
    if (int r = call<DumpExtFile>(kDumpExtFile, render_.get(), kRenderId)) return r;
    return call<DumpExtFile>(kDumpExtFile, kfd_.get(), kKfdId);
  }

  TempDir images_;
  TempDir topology_;
  FakeState state_;
  Fd kfd_, render_;
  base::Mapping vma_;
};

TEST_F(Hooks, DumpThenRestoreBringsBackEveryByte) {
  std::map<uint64_t, std::string> before;
  for (const auto& bo : state_.bos) before[bo.object_id] = contents_of(state_, bo.object_id);
  ASSERT_EQ(dump(), 0) << log_text;
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_EQ(inventory_calls, 1);

  clear_objects(state_);
  write_topology(0x77, 32);
  ASSERT_EQ(start(kStageRestore), 0) << log_text;
  const int render = call<RestoreExtFile>(kRestoreExtFile, kRenderId, nullptr);
  ASSERT_GE(render, 0) << log_text;
  const Fd render_owner(render);
  const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  ASSERT_TRUE(kfd.valid()) << log_text;
  for (const auto& [id, bytes] : before) EXPECT_EQ(contents_of(state_, id), bytes) << id;
  ASSERT_EQ(state_.restored_devices.size(), 1u);
  EXPECT_EQ(state_.restored_devices[0].gpu_id, kGpu);
  EXPECT_EQ(state_.restored_devices[0].actual_gpu_id, 0x77u);

  uint64_t offset = 0;
  int fd = -1;
  const auto address = reinterpret_cast<uintptr_t>(vma_.data());
  EXPECT_EQ(
      call<UpdateVmaMap>(kUpdateVmaMap, "/dev/dri/renderD128", address, kOffset, &offset, &fd), 1);
  const Fd mapped(fd);
  EXPECT_EQ(offset, kOffset + 0x500000000);
  EXPECT_TRUE(*host::same_file(fd, render));
  EXPECT_EQ(call<ResumeDevicesLate>(kResumeDevicesLate, getpid()), 0);
  EXPECT_EQ(state_.resumed, getpid());
  end(kStageRestore, 0);
}

TEST_F(Hooks, LeaksNoDescriptor) {
  const size_t before = testing_support::count_open_files();
  ASSERT_EQ(dump(), 0) << log_text;
  state_.session_ends.clear();
  EXPECT_EQ(testing_support::count_open_files(), before);
  ASSERT_EQ(start(kStageRestore), 0);
  {
    const Fd render(call<RestoreExtFile>(kRestoreExtFile, kRenderId, nullptr));
  }
  {
    const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  }
  end(kStageRestore, 0);
  stored.clear();
  state_.session_ends.clear();
  EXPECT_EQ(testing_support::count_open_files(), before);
}

// The point of the whole: whatever goes wrong, the process runs on.
class FailedDump : public Hooks, public testing::WithParamInterface<const char*> {};

TEST_P(FailedDump, LetsTheProcessRunOn) {
  state_.failures[GetParam()] = EIO;
  EXPECT_EQ(dump(), -EIO);
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_THAT(log_text, HasSubstr(std::string("injected failure of ") + GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Operations, FailedDump,
                         testing::Values("SESSION", "PROCESS_INFO", "CHECKPOINT", "DMABUF"));

TEST_F(Hooks, AFailedCopyFailsTheDumpAndLetsTheProcessRunOn) {
  for (int copies = 0; copies < 15; copies++) {
    testing_support::fail_copies_after = copies;
    EXPECT_EQ(dump(), -EIO) << copies;
    EXPECT_FALSE(state_.paused);
    EXPECT_THAT(log_text, HasSubstr("amdgpu-contents-0-11.img"));
    log_text.clear();
  }
  testing_support::fail_copies_after = -1;
  EXPECT_EQ(dump(), 0) << log_text;
}

TEST_F(Hooks, AFullDiskIsReportedWithTheFilesName) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit unlimited;
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const rlimit tight{20000, unlimited.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  const int result = dump();
  setrlimit(RLIMIT_FSIZE, &unlimited);
  EXPECT_EQ(result, -EFBIG);
  EXPECT_THAT(log_text, HasSubstr("cannot write image amdgpu-contents-0-11.img"));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, ARenderNodeThatKfdDoesNotUseIsRefusedByName) {
  const Fd other = std::move(*Fd::open("/dev/zero", O_RDWR));
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(call<CheckpointDevices>(kCheckpointDevices, getpid()), 0);
  EXPECT_EQ(call<DumpExtFile>(kDumpExtFile, other.get(), 9), -EINVAL);
  EXPECT_THAT(log_text, HasSubstr("/dev/zero"));
  EXPECT_THAT(log_text, HasSubstr("KFD does not use"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, AMappingThatIsNoBoIsRefused) {
  state_.bos[0].mmap_offset = 0x7000000;
  EXPECT_LT(dump(), 0);
  EXPECT_THAT(log_text, HasSubstr("not memory that KFD knows"));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Hooks, FilesAndMappingsOfOthersAreLeftToOthers) {
  ASSERT_EQ(start(kStageDump), 0);
  const Fd null = std::move(*Fd::open("/dev/null", O_RDWR));
  struct stat status;
  fstat(null.get(), &status);
  EXPECT_EQ(call<DumpExtFile>(kDumpExtFile, null.get(), 1), -ENOTSUP);
  EXPECT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, null.get(), &status), -ENOTSUP);
  EXPECT_EQ(call<CheckpointDevices>(kCheckpointDevices, -1), -ENOTSUP);
  end(kStageDump, 0);
  EXPECT_EQ(inventory_calls, 0);
}

TEST_F(Hooks, PreDumpPausesNothingAndAcceptsMappings) {
  ASSERT_EQ(start(kStagePreDump), 0);
  struct stat status;
  fstat(render_.get(), &status);
  EXPECT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, render_.get(), &status), 0);
  EXPECT_EQ(call<CheckpointDevices>(kCheckpointDevices, getpid()), -ENOTSUP);
  end(kStagePreDump, 0);
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(Hooks, DumpFinishMayComeTwiceAndBeforeExit) {
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(call<CheckpointDevices>(kCheckpointDevices, getpid()), 0);
  EXPECT_TRUE(state_.paused);
  EXPECT_EQ(call<DumpFinish>(kDumpFinish, -1), 0);
  EXPECT_FALSE(state_.paused);
  EXPECT_EQ(call<DumpFinish>(kDumpFinish, -1), 0);
  end(kStageDump, -1);
}

TEST_F(Hooks, ADamagedChunkNeverReachesTheGpu) {
  ASSERT_EQ(dump(), 0) << log_text;
  clear_objects(state_);
  const std::string name = "amdgpu-contents-0-11.img";
  std::string bytes = images_.read(name);
  bytes[image::kDataStart] ^= 1;
  images_.write(name, bytes);
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr), -EBADMSG);
  EXPECT_THAT(log_text, HasSubstr(name));
  EXPECT_EQ(contents_of(state_, 1), std::string(5 * 4096, 0));
  end(kStageRestore, -1);
}

TEST_F(Hooks, DamagedMetadataIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log_text;
  state_.calls.clear();
  std::string bytes = images_.read("amdgpu-process-0.img");
  bytes.back() ^= 1;
  images_.write("amdgpu-process-0.img", bytes);
  EXPECT_EQ(start(kStageRestore), -EBADMSG);
  EXPECT_THAT(log_text, HasSubstr("amdgpu-process-0.img"));
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(Hooks, AGpuThatDoesNotFitIsRefusedBeforeAnythingIsCreated) {
  ASSERT_EQ(dump(), 0) << log_text;
  state_.calls.clear();
  write_topology(0x77, 64);
  EXPECT_EQ(start(kStageRestore), -ENODEV);
  EXPECT_THAT(log_text, HasSubstr("simd_count was 0x20, is 0x40"));
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(Hooks, ImagesThatDoNotAskForThePluginAreLeftAlone) {
  images_.write("amdgpu-process-0.img", "damaged");
  in_inventory = false;
  EXPECT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr), -ENOTSUP);
  EXPECT_EQ(call<ResumeDevicesLate>(kResumeDevicesLate, getpid()), -ENOTSUP);
  end(kStageRestore, 0);
}

TEST_F(Hooks, TheTestSwitchLeavesBosUnfilledAndSaysSo) {
  ASSERT_EQ(dump(), 0) << log_text;
  clear_objects(state_);
  setenv("AMDGPU_CRIU_TEST_SKIP_CONTENTS", "1", 1);
  ASSERT_EQ(start(kStageRestore), 0);
  unsetenv("AMDGPU_CRIU_TEST_SKIP_CONTENTS");
  const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  ASSERT_TRUE(kfd.valid());
  EXPECT_EQ(contents_of(state_, 1), std::string(5 * 4096, 0));
  EXPECT_THAT(log_text, HasSubstr("TEST SWITCH: amdgpu-contents-0-11.img is NOT restored"));
  end(kStageRestore, 0);
}

TEST_F(Hooks, AFailedResumeKillsTheTaskWhereCriuWouldIgnoreIt) {
  ASSERT_EQ(dump(), 0) << log_text;
  ASSERT_EQ(start(kStageRestore), 0);
  // Not restored yet: not ours.
  EXPECT_EQ(call<ResumeDevicesLate>(kResumeDevicesLate, getpid()), -ENOTSUP);
  const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  ASSERT_TRUE(kfd.valid());
  state_.failures["RESUME"] = EIO;
  EXPECT_EQ(call<ResumeDevicesLate>(kResumeDevicesLate, getpid()), -EIO);
  EXPECT_EQ(killed, getpid());
  EXPECT_THAT(log_text, HasSubstr("is killed"));
  // A process with another number is not ours, and lives.
  killed = 0;
  EXPECT_EQ(call<ResumeDevicesLate>(kResumeDevicesLate, 1), -ENOTSUP);
  EXPECT_EQ(killed, 0);
  end(kStageRestore, 0);
}

TEST_F(Hooks, StaleImagesOfAnEarlierDumpAreRemoved) {
  images_.write("amdgpu-file-99.img", "old");
  images_.write("amdgpu-kfd-1.img", "not ours");
  ASSERT_EQ(dump(), 0) << log_text;
  EXPECT_THAT(images_.names(), Not(Contains("amdgpu-file-99.img")));
  EXPECT_THAT(images_.names(), Contains("amdgpu-kfd-1.img"));
}

TEST_F(Hooks, AMappingThatWasNotSavedIsLeftToOthers) {
  ASSERT_EQ(dump(), 0) << log_text;
  ASSERT_EQ(start(kStageRestore), 0);
  const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  ASSERT_TRUE(kfd.valid());
  uint64_t offset = 0;
  int fd = -1;
  EXPECT_EQ(call<UpdateVmaMap>(kUpdateVmaMap, "/dev/x", 0x1000ul, 0ul, &offset, &fd), -ENOTSUP);
  end(kStageRestore, 0);
}

TEST_F(Hooks, AMappingThatCannotBeRestoredIsMadeToFail) {
  ASSERT_EQ(dump(), 0) << log_text;
  ASSERT_EQ(start(kStageRestore), 0);
  const Fd kfd(call<RestoreExtFile>(kRestoreExtFile, kKfdId, nullptr));
  ASSERT_TRUE(kfd.valid());
  for (Fd& fd : stored) fd.reset();
  uint64_t offset = 0;
  int fd = -1;
  const auto address = reinterpret_cast<uintptr_t>(vma_.data());
  EXPECT_EQ(call<UpdateVmaMap>(kUpdateVmaMap, "/dev/x", address, kOffset, &offset, &fd), 1);
  EXPECT_EQ(offset, ~0xfffull);
  EXPECT_EQ(fd, -1);
  EXPECT_THAT(log_text, HasSubstr("cannot be restored"));
  end(kStageRestore, -1);
}

}  // namespace
}  // namespace criu
