// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, with disks that are full or lack features.
#include <gmock/gmock.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <filesystem>

#include "base/log.h"
#include "image/set.h"
#include "tests/criu_program.h"
#include "tests/refused_call.h"

namespace amdgpu_criu::criu {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing_support::kGpu;

constexpr uint64_t kBoBytes = 0x20000;
std::optional<uint64_t> free_blocks;  // of each file system, which then is a disk

class Disk : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    free_blocks.reset();
    use_only_a_render_node(kBoBytes);
  }
  void TearDown() override {
    free_blocks.reset();
    HooksTest::TearDown();
  }

  int dump() {
    // Otherwise the process would have the files of the kernel open.
    state_.marked.clear();
    state_.restored.clear();
    int result = start(kStageDump);
    if (result == 0) result = pause(getpid());
    if (result == 0) result = dump_file(state_.renders[0].file, 1);
    end(kStageDump, result);
    return result;
  }
  // No file can be larger than that.
  int dump_within(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit unlimited;
    getrlimit(RLIMIT_FSIZE, &unlimited);
    const rlimit tight{bytes, unlimited.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    const int result = dump();
    setrlimit(RLIMIT_FSIZE, &unlimited);
    return result;
  }
  Fd open_directory() const {
    return std::move(*Fd::open(images_.path().c_str(), O_RDONLY | O_DIRECTORY));
  }
  bool is_locked() const { return flock(open_directory().get(), LOCK_SH | LOCK_NB) != 0; }
  uint64_t file_size() const {
    return std::filesystem::file_size(images_.file(image::contents_file_name(0, kGpu)));
  }
};

TEST_F(Disk, AFullDiskIsReportedWithTheFilesName) {
  EXPECT_EQ(dump_within(20000), -EFBIG);
  EXPECT_THAT(log(), ContainsRegex("cannot (write|allocate) image amdgpu-contents-0-11.img"));
  EXPECT_FALSE(state_.anything_paused());
}

TEST_F(Disk, TheLastLineOfAFailedDumpIsItsReason) {
  state_.failures["DMABUF"] = ENOSPC;
  EXPECT_EQ(dump(), -ENOSPC);
  const std::string last = log().substr(log().rfind("Error"));
  EXPECT_THAT(last, HasSubstr("the dump has failed: "));
  EXPECT_THAT(last, HasSubstr("injected failure of DMABUF"));
  EXPECT_THAT(last, ContainsRegex(images_.path() + " has [0-9]+ MiB free now"));
  EXPECT_THAT(last, HasSubstr("amdgpu.compress=lz4"));
}

TEST_F(Disk, AFullDiskIsReportedForMetadata) {
  state_.renders[0].bos[0].flags = 0;  // nothing else is written
  ASSERT_TRUE(testing_support::without({SYS_pwrite64, UINT32_MAX, ENOSPC},
                                       [&] { EXPECT_EQ(dump(), -ENOSPC); }));
  const std::string last = log().substr(log().rfind("Error"));
  EXPECT_THAT(last, HasSubstr("the dump has failed: "));
  EXPECT_THAT(last, HasSubstr("cannot write image amdgpu-render-0.img"));
  EXPECT_THAT(last, ContainsRegex(images_.path() + " has [0-9]+ MiB free now: make room"));
}

// CRIU's own messages name neither the disk nor the remedy.
TEST_F(Disk, AFullDiskIsTheReasonIfCriusOwnPartFails) {
  for (const uint64_t blocks : {10, 1 << 20}) {
    testing_support::program.log.clear();
    ASSERT_EQ(start(kStageDump), 0);
    ASSERT_EQ(pause(getpid()), 0);
    ASSERT_EQ(dump_file(state_.renders[0].file, 1), 0) << log();
    free_blocks = blocks;
    end(kStageDump, -1);
    EXPECT_EQ(log().find("the dump has failed: CRIU's own part: No space left on device; " +
                         images_.path() + " has 0 MiB free now: make room") != std::string::npos,
              blocks == 10)
        << log();
    free_blocks.reset();
    state_.marked.clear();
  }
}

TEST_F(Disk, MissingRoomIsReportedBeforeAnythingIsCopied) {
  state_.before_dmabuf = [] { log_error("copied"); };
  free_blocks = kBoBytes / 4096 - 1;
  EXPECT_EQ(dump(), -ENOSPC);
  EXPECT_THAT(log(), Not(HasSubstr("copied")));
  EXPECT_THAT(log(),
              HasSubstr("cannot save GPU memory: No space left on device; " + images_.path() +
                        " has 0 MiB free now, and GPU memory of 0 MiB is to be saved: make "
                        "room, choose another directory"));
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_THAT(images_.names(), testing::IsEmpty());
  free_blocks = 1 << 20;
  EXPECT_EQ(dump(), 0) << log();
  EXPECT_GT(file_size(), kBoBytes);
}

TEST_F(Disk, CompressedMemoryMayNeedLessRoom) {
  setenv("AMDGPU_CRIU_COMPRESS", "lz4", 1);
  free_blocks = 1;
  testing_support::clear_objects(state_);
  EXPECT_EQ(dump_within(kBoBytes / 2), 0) << log();
  EXPECT_LT(file_size(), kBoBytes / 2);
  unsetenv("AMDGPU_CRIU_COMPRESS");
}

TEST_F(Disk, ADumpLocksItsDirectoryUntilCriuEnds) {
  for (const int result : {0, -1}) {
    state_.marked.clear();
    ASSERT_EQ(start(kStageDump), 0);
    EXPECT_FALSE(is_locked());
    ASSERT_EQ(pause(getpid()), 0) << log();
    EXPECT_TRUE(is_locked());
    ASSERT_EQ(dump_file(state_.renders[0].file, 1), 0) << log();
    EXPECT_TRUE(is_locked());
    end(kStageDump, result);
    EXPECT_FALSE(is_locked());
  }
}

// It would remove the images of the other one, which then succeeds.
TEST_F(Disk, ADumpToTheDirectoryOfAnotherOneIsRefusedBeforeItPauses) {
  images_.write("amdgpu-file-7.img", "of the other dump");
  const Fd other = open_directory();
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  EXPECT_EQ(dump(), -EBUSY);
  const std::string last = log().substr(log().rfind("Error"));
  EXPECT_THAT(last, HasSubstr("the dump has failed: "));
  EXPECT_THAT(last, HasSubstr("another dump writes images to this directory: wait until it has "
                              "ended, or choose another directory (criu -D)"));
  EXPECT_THAT(state_.calls, testing::IsEmpty());
  EXPECT_EQ(images_.read("amdgpu-file-7.img"), "of the other dump");
  ASSERT_EQ(flock(other.get(), LOCK_UN), 0);
  EXPECT_EQ(dump(), 0) << log();
}

// Its process pauses nothing, and writes only the image of the descriptor.
TEST_F(Disk, ADumpOfADmabufAloneIsRefusedThereToo) {
  const Fd dmabuf = std::move(*state_.objects.at(1).duplicate());
  state_.exported[1] = state_.renders[0].bos[0];
  const Fd other = open_directory();
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(dump_file(dmabuf, 2), -EBUSY);
  end(kStageDump, -1);
}

// CRIU's main process neither waits for the disk of an earlier dump nor has its index in memory.
TEST_F(Disk, AnEarlierDumpIsReadOnlyByTheProcessThatSaves) {
  const testing_support::TempDir earlier;
  const std::string file = earlier.file(image::contents_file_name(0, kGpu));
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  std::filesystem::create_symlink(earlier.path(), images_.file(image::kParent));
  bool is_open_here = false;
  std::jthread user([&] {
    const Fd writer = std::move(*Fd::open(file.c_str(), O_WRONLY));  // waits for the reader
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      is_open_here |= entry.path().filename() != std::to_string(writer.get()) &&
                      std::filesystem::read_symlink(entry.path(), gone) == file;
  });
  EXPECT_EQ(dump(), 0) << log();
  user.join();
  EXPECT_FALSE(is_open_here);
  EXPECT_THAT(log(), HasSubstr("all GPU memory is written"));
}

TEST_F(Disk, AFileSystemWithoutLocksIsUsed) {
  ASSERT_TRUE(
      testing_support::without({SYS_flock, 0, ENOLCK}, [&] { EXPECT_EQ(dump(), 0) << log(); }));
}

// Runs it with files that have no direct I/O, and of which nothing seems to be in the page cache,
// from which they would be read.
bool without_direct(const std::function<void()>& run) {
  const testing_support::Refused direct{SYS_fcntl, O_DIRECT, EINVAL, F_SETFL};
  const testing_support::Refused cachestat{451, UINT32_MAX, ENOSYS};
  bool done = false;
  return testing_support::without(cachestat,
                                  [&] { done = testing_support::without(direct, run); }) &&
         done;
}

TEST_F(Disk, AFileSystemWithoutDirectIoIsReportedAtADump) {
  constexpr char kText[] = "the file system of the images has no direct I/O: GPU memory of";
  ASSERT_EQ(dump(), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr(kText)));
  ASSERT_TRUE(without_direct([&] { EXPECT_EQ(dump(), 0) << log(); }));
  EXPECT_THAT(log(), HasSubstr(kText));
}

TEST_F(Disk, AFileSystemWithoutDirectIoIsReportedAtARestore) {
  constexpr char kText[] = ".img has no direct I/O: it is read through the page cache";
  auto restore = [&] {
    EXPECT_EQ(start(kStageRestore), 0) << log();
    EXPECT_TRUE(Fd(restore_file(1)).valid()) << log();
    end(kStageRestore, -1);
    state_.restored.clear();
  };
  ASSERT_EQ(dump(), 0) << log();
  restore();
  EXPECT_THAT(log(), Not(HasSubstr(kText)));
  ASSERT_TRUE(without_direct(restore));
  EXPECT_THAT(log(), HasSubstr(kText));
}

}  // namespace
}  // namespace amdgpu_criu::criu

// Replaces that of libc.
extern "C" int fstatvfs(int fd, struct statvfs* system) noexcept {
  struct statfs result{};
  if (fstatfs(fd, &result) != 0) return -1;
  *system = {};
  system->f_frsize = result.f_bsize;
  system->f_bavail = result.f_bavail;
  system->f_blocks = result.f_blocks;
  return 0;
}
extern "C" int fstatfs(int fd, struct statfs* system) noexcept {
  using amdgpu_criu::criu::free_blocks;
  const auto result = static_cast<int>(syscall(SYS_fstatfs, fd, system));
  if (result != 0 || !free_blocks) return result;
  system->f_type = EXT4_SUPER_MAGIC;
  system->f_bsize = 4096;
  system->f_bavail = *free_blocks;
  return 0;
}
