// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does, for processes that use render nodes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/statistics.h"
#include "image/set.h"
#include "tests/criu_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing_support::call;
using testing_support::FakeRender;
using testing_support::kGpu;
using testing_support::kKfdPath;
using testing_support::kOtherGpu;
using testing_support::kOtherMinor;
using testing_support::kOtherPath;
using testing_support::kRenderPath;
using testing_support::program;

constexpr uint64_t kMoved = 0x500000000;  // what the fake kernel adds to offsets at restore

kernel::Bo make_bo(uint64_t id, uint64_t size = 0x3000) {
  kernel::Bo bo = testing_support::vram_bo(id, size, id * 0x100000);
  bo.handle = id;
  return bo;
}

class RenderHooks : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    machine_has_kfd_ = false;
  }

  void add_render(const Fd& file, std::vector<kernel::Bo> bos, const std::string& blob) {
    for (const kernel::Bo& bo : bos)
      if (!state_.objects.contains(bo.object_id)) add_object(state_, bo, bo.object_id);
    FakeRender& render = state_.renders.emplace_back();
    render.file = std::move(*file.duplicate());
    render.bos = std::move(bos);
    render.blob = blob;
  }
  // We have /dev/kfd open, too, with BO 1 in the VM of the file.
  void use_kfd_too(const Fd& render) {
    machine_has_kfd_ = true;
    state_.pid = getpid();
    state_.blob = {std::byte{'k'}};
    state_.devices = {{kGpu, kGpu, render.get()}};
    add_kfd_object(state_, make_bo(1), 1);
  }
  Mapping map(const Fd& file, uint64_t offset, size_t size = 0x1000, int protection = PROT_READ) {
    return std::move(*Mapping::map(size, protection, MAP_PRIVATE, file.get(), offset));
  }

  // Pauses us, dumps the files with ids from 1 on, ends.
  int dump(const std::vector<const Fd*>& files) {
    int result = start(kStageDump);
    if (result == 0) result = pause(getpid());
    if (result == -ENOTSUP) result = 0;
    for (size_t i = 0; result == 0 && i < files.size(); i++) result = dump_file(*files[i], i + 1);
    end(kStageDump, result);
    return result;
  }
  std::map<uint64_t, std::string> contents() {
    std::map<uint64_t, std::string> result;
    for (const auto& [id, memory] : state_.objects) result[id] = contents_of(state_, id);
    return result;
  }
  size_t objects_saved() {
    size_t count = 0;
    const auto set = image::Set::load(images_.fd());
    for (const auto& file : set->contents()) count += file.contents.objects.size();
    return count;
  }
};

TEST_F(RenderHooks, AProcessWithoutKfdAndWithTwoFilesIsRestored) {
  const Fd first = open(kRenderPath), second = open(kRenderPath);
  add_render(first, {make_bo(1), make_bo(2)}, "first");
  add_render(second, {make_bo(2), make_bo(3)}, "second");
  const Mapping of_first = map(first, make_bo(1).mmap_offset);
  const Mapping of_second = map(second, make_bo(3).mmap_offset + 0x1000, 0x2000);
  const Mapping of_both = map(first, make_bo(2).mmap_offset);
  const auto before = contents();
  ASSERT_EQ(dump({&first, &second}), 0) << log();
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_EQ(program.inventory_calls, 1);
  EXPECT_EQ(objects_saved(), 3u);

  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd again_second(restore_file(2)), again_first(restore_file(1));
  ASSERT_TRUE(again_first.valid() && again_second.valid()) << log();
  EXPECT_EQ(contents(), before);
  for (uint64_t id = 1; id <= 3; id++) EXPECT_EQ(state_.bytes_filled(id), 0x3000u) << id;
  EXPECT_EQ(state_.open_sessions(), 1);

  const Mapped a = update_vma(of_first.data()), b = update_vma(of_second.data());
  EXPECT_EQ(a.offset, make_bo(1).mmap_offset + kMoved);
  EXPECT_TRUE(*host::same_file(a.file.get(), again_first.get()));
  EXPECT_EQ(b.offset, make_bo(3).mmap_offset + 0x1000 + kMoved);
  EXPECT_TRUE(*host::same_file(b.file.get(), again_second.get()));
  const Mapped c = update_vma(of_both.data());
  EXPECT_EQ(c.offset, make_bo(2).mmap_offset + kMoved);

  EXPECT_EQ(resume(getpid()), 0) << log();
  for (const auto& restored : state_.restored) EXPECT_EQ(restored.resumed, getpid());
  EXPECT_EQ(state_.restored.size(), 2u);
  end(kStageRestore, 0);
}

TEST_F(RenderHooks, KfdIsRestoredBeforeTheFileWhoseVmItUses) {
  const Fd kfd = open(kKfdPath), render = open(kRenderPath);
  use_kfd_too(render);
  add_render(render, {make_bo(2), make_bo(1)}, "vm");
  const Mapping of_kfd_bo = map(render, make_bo(1).mmap_offset);
  ASSERT_EQ(dump({&render, &kfd}), 0) << log();
  EXPECT_EQ(objects_saved(), 2u);
  for (const bool render_first : {false, true}) {
    clear_objects(state_);
    state_.calls.clear();
    state_.restored.clear();
    testing_support::clear_fd_store();
    testing_support::make_fd_store();
    ASSERT_EQ(start(kStageRestore), 0) << log();
    Fd files[2];
    for (const int id : {render_first ? 1 : 2, render_first ? 2 : 1}) {
      files[id - 1] = Fd(restore_file(id));
      ASSERT_TRUE(files[id - 1].valid()) << log();
    }
    ASSERT_EQ(state_.restored.size(), 1u);
    EXPECT_EQ(state_.restored_devices.size(), 1u);
    EXPECT_TRUE(*host::same_file(state_.restored[0].file.get(), files[0].get()));
    EXPECT_EQ(update_vma(of_kfd_bo.data()).offset, make_bo(1).mmap_offset + kMoved);
    EXPECT_EQ(state_.bytes_filled(1), 0x3000u);
    EXPECT_EQ(resume(getpid()), 0) << log();
    EXPECT_EQ(state_.resumed, getpid());
    EXPECT_EQ(state_.restored[0].resumed, getpid());
    end(kStageRestore, 0);
  }
}

// Work that was submitted through a file may wait for memory that the queues write.
TEST_F(RenderHooks, QueuesRunUntilTheWorkOfFilesIsDone) {
  const Fd kfd = open(kKfdPath), render = open(kRenderPath);
  use_kfd_too(render);
  add_render(render, {make_bo(2)}, "file");
  state_.files_wait_for_queues = true;
  EXPECT_EQ(dump({&render, &kfd}), 0) << log();
}

TEST_F(RenderHooks, DmabufDescriptorsAreCarriedWithTheirContents) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  add_object(state_, make_bo(2), 2);
  for (const uint64_t id : {1, 2}) state_.exported[id] = make_bo(id);
  const auto before = contents();
  ASSERT_EQ(dump({&render, &state_.objects.at(1), &state_.objects.at(2)}), 0) << log();
  EXPECT_EQ(objects_saved(), 2u);
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  for (const int id : {3, 2, 1}) {
    const Fd fd(restore_file(id));
    ASSERT_TRUE(fd.valid()) << id << log();
  }
  EXPECT_EQ(contents(), before);
  for (const uint64_t id : {1, 2}) EXPECT_EQ(state_.bytes_filled(id), 0x3000u);
  end(kStageRestore, 0);
}

// Each dma-buf descriptor is saved in a batch of its own.
TEST_F(RenderHooks, TheIndexOfAnEarlierDumpIsReadOnceForAllBatches) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  for (const uint64_t id : {2, 3}) add_object(state_, make_bo(id), id);
  for (const uint64_t id : {1, 2, 3}) state_.exported[id] = make_bo(id);
  const auto dump_all = [&] {
    return dump({&render, &state_.objects.at(2), &state_.objects.at(3)});
  };
  setenv("AMDGPU_CRIU_INCREMENTAL", "on", 1);
  const int first = dump_all();
  unsetenv("AMDGPU_CRIU_INCREMENTAL");
  ASSERT_EQ(first, 0) << log();
  const testing_support::TempDir next;
  std::filesystem::create_symlink(images_.path(), next.file("parent"));
  program.image_directory = next.fd();
  program.log.clear();
  state_.marked.clear();
  ASSERT_EQ(dump_all(), 0) << log();
  const std::string line = "the earlier dump has ";
  const size_t at = log().find(line);
  ASSERT_NE(at, std::string::npos) << log();
  EXPECT_EQ(log().find(line, at + 1), std::string::npos) << log();
  size_t files = 0, stored = 0;
  const auto set = image::Set::load(next.fd());
  ASSERT_TRUE(set.ok());
  for (const auto& file : set->contents()) {
    files++;
    for (const image::Object& object : file.contents.objects)
      for (const image::Chunk& chunk : object.chunks) stored += chunk.source == 0;
  }
  EXPECT_EQ(files, 3u);
  EXPECT_EQ(stored, 0u);
}

TEST_F(RenderHooks, AProcessWithNothingButADmabufIsCarried) {
  add_object(state_, make_bo(1), 1);
  state_.exported[1] = make_bo(1);
  ASSERT_EQ(dump({&state_.objects.at(1)}), 0) << log();
  EXPECT_EQ(program.inventory_calls, 1);
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd fd(restore_file(1));
  ASSERT_TRUE(fd.valid()) << log();
  EXPECT_EQ(state_.bytes_filled(1), 0x3000u);
  EXPECT_EQ(resume(getpid()), -ENOTSUP) << log();
  end(kStageRestore, 0);
}

class DmabufAlone : public RenderHooks {
 protected:
  void SetUp() override {
    RenderHooks::SetUp();
    add_object(state_, make_bo(1), 1);
    state_.exported[1] = make_bo(1);
    ASSERT_EQ(dump({&state_.objects.at(1)}), 0) << log();
    clear_objects(state_);
    testing_support::make_fd_store_known();
    ASSERT_EQ(start(kStageRestore), 0) << log();
    const Fd fd(restore_file(1));
    ASSERT_TRUE(fd.valid()) << log();
  }
};

// CRIU may wait for the program that it has restored, and keeps its descriptor store.
TEST_F(DmabufAlone, IsRestoredWhenTheFirstProcessIsResumed) {
  EXPECT_EQ(state_.open_sessions(), 1);
  EXPECT_EQ(resume(getpid()), -ENOTSUP) << log();
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_THAT(images_.read(kRestoreStatistics), HasSubstr("\"bytes\": 12288"));
  remove_statistics(kRestoreStatistics);
  EXPECT_EQ(resume(getpid()), -ENOTSUP) << log();
  EXPECT_THAT(images_.names(), Not(testing::Contains(kRestoreStatistics))) << "it has ended once";
  end(kStageRestore, 0);
}

TEST_F(DmabufAlone, TasksThatAFailedRestoreHasLeftAreKilled) {
  const pid_t task = fork();
  if (task == 0) ::pause(), _exit(0);
  end(kStageRestore, -1);
  syscall(SYS_kill, task, SIGTERM);  // kill() is not libc's here
  int status = 0;
  ASSERT_EQ(waitpid(task, &status, 0), task);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_F(RenderHooks, ADmabufOfAnotherDriverIsLeftToItsPlugin) {
  add_object(state_, make_bo(1), 1);
  state_.exported[1] = make_bo(1);
  state_.foreign = {1};
  EXPECT_EQ(dump({&state_.objects.at(1)}), -ENOTSUP);
  EXPECT_THAT(log(), HasSubstr("of another driver"));
  EXPECT_EQ(program.inventory_calls, 0);
}

TEST_F(RenderHooks, ImportedObjectsAreMadeBeforeTheFileThatFindsThem) {
  write_topology(kOtherGpu, 32, kOtherMinor);
  const Fd render = open(kRenderPath);
  kernel::Bo imported = make_bo(1);
  imported.gpu_id = kOtherGpu;
  imported.flags |= AMDGPU_CRIU_BO_IMPORTED;
  add_render(render, {imported}, "importer");
  state_.exported[1] = imported;
  state_.exported[1].flags &= ~AMDGPU_CRIU_BO_IMPORTED;
  ASSERT_EQ(dump({&render}), 0) << log();
  EXPECT_THAT(images_.names(), testing::Contains(image::contents_file_name(0, kOtherGpu)));
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd fd(restore_file(1));
  ASSERT_TRUE(fd.valid()) << log();
  EXPECT_EQ(state_.bytes_filled(1), 0x3000u);
  end(kStageRestore, 0);
}

TEST_F(RenderHooks, ABoOfOneVmIsCopiedThroughAFileThatMayImportIt) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  state_.always_valid = {1};
  ASSERT_EQ(dump({&render}), 0) << log();
  // Not through the process's own file, which would keep the permission.
  for (const Fd& marked : state_.marked) EXPECT_FALSE(*host::same_file(marked.get(), render.get()));
  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd fd(restore_file(1));
  ASSERT_TRUE(fd.valid()) << log();
  end(kStageRestore, 0);
}

TEST_F(RenderHooks, AMappingOfNoKnownBoIsRefusedByName) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  const Mapping closed = map(render, make_bo(2).mmap_offset);
  EXPECT_EQ(dump({&render}), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("its handle may have been closed"));
  EXPECT_FALSE(state_.anything_paused());
}

TEST_F(RenderHooks, FreedMemoryThatNobodyCanAccessIsRestoredWithoutContents) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  const Mapping freed = map(render, make_bo(2).mmap_offset, 0x2000, PROT_NONE);
  ASSERT_EQ(dump({&render}), 0) << log();
  EXPECT_THAT(log(), HasSubstr("8192 bytes of a freed BO"));
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd fd(restore_file(1));
  ASSERT_TRUE(fd.valid()) << log();
  const Mapped mapped = update_vma(freed.data());
  ASSERT_TRUE(mapped.file.valid()) << log();
  const Mapping again =
      std::move(*Mapping::map(0x2000, PROT_READ, MAP_SHARED, mapped.file.get(), mapped.offset));
  const Fd null(::open("/dev/zero", O_RDWR));
  EXPECT_EQ(read(null.get(), again.data(), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  end(kStageRestore, 0);
}

TEST_F(RenderHooks, AMappingWhoseFileIsClosedIsRefusedInItsHook) {
  const Mapping left = map(open(kRenderPath), make_bo(1).mmap_offset);
  struct stat status;
  fstat(open(kRenderPath).get(), &status);
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(call<HandleDeviceVma>(kHandleDeviceVma, 0, &status), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("not memory of a BO"));
  end(kStageDump, -1);
}

// Also one without access: it is not of a freed BO, because the file keeps the BO.
TEST_F(RenderHooks, AMappingIsRefusedIfOnlyAnotherNodeHasAnOpenFile) {
  write_topology(kOtherGpu, 32, kOtherMinor);
  const Fd other = open(kOtherPath);
  add_render(other, {}, "other");
  for (const int protection : {PROT_READ, PROT_NONE}) {
    program.log.clear();
    const Mapping left = map(open(kRenderPath), make_bo(1).mmap_offset, 0x1000, protection);
    EXPECT_EQ(dump({&other}), -EINVAL) << protection;
    EXPECT_THAT(log(), HasSubstr("not memory of a BO"));
  }
}

TEST_F(RenderHooks, RenderNodesAreRefusedOnAKernelWithoutTheirPart) {
  state_.features = AMDGPU_CRIU_FEATURE_KFD;
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  EXPECT_EQ(dump({&render}), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("does not carry what was done through it"));
}

TEST_F(RenderHooks, WarnsOfAnUntestedGeneration) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  state_.features |= AMDGPU_CRIU_FEATURE_UNTESTED;
  EXPECT_EQ(dump({&render}), 0) << log();
  EXPECT_THAT(log(), HasSubstr("carried untested"));
}

TEST_F(RenderHooks, DoesNotWarnOfATestedGeneration) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  EXPECT_EQ(dump({&render}), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("carried untested")));
}

TEST_F(RenderHooks, NodesOfOtherDriversAreNotOurs) {
  const std::string driver = sysfs_.file("1:5/device/driver");
  std::filesystem::remove(driver);
  std::filesystem::create_symlink("/sys/bus/pci/drivers/i915", driver);
  const Fd render = open(kRenderPath);
  EXPECT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(getpid()), -ENOTSUP);
  EXPECT_EQ(dump_file(render, 1), -ENOTSUP);
  end(kStageDump, 0);
  EXPECT_TRUE(state_.calls.empty());
}

TEST_F(RenderHooks, ACardNodeIsRefusedByName) {
  std::filesystem::create_directories(sysfs_.file("1:3/device"));
  std::filesystem::create_symlink("/x/amdgpu", sysfs_.file("1:3/device/driver"));
  const Fd card = open("/dev/null");
  EXPECT_EQ(dump({&card}), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("/dev/null is a card node"));
}

TEST_F(RenderHooks, AFileThatWasNotPausedIsRefusedByName) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(dump_file(open(kRenderPath), 1), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("in flight in a UNIX socket"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.anything_paused());
}

class FailedRenderDump : public RenderHooks, public testing::WithParamInterface<const char*> {};

TEST_P(FailedRenderDump, ContinuesEveryFile) {
  const Fd first = open(kRenderPath), second = open(kRenderPath);
  add_render(first, {make_bo(1)}, "first");
  add_render(second, {make_bo(2)}, "second");
  state_.exported[2] = make_bo(2);
  state_.failures[GetParam()] = EIO;
  EXPECT_EQ(dump({&first, &second, &state_.objects.at(2)}), -EIO);
  EXPECT_FALSE(state_.anything_paused());
  EXPECT_EQ(state_.open_sessions(), 0);
  EXPECT_THAT(log(), HasSubstr(std::string("injected failure of ") + GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Operations, FailedRenderDump,
                         testing::Values("SESSION", "PROCESS_INFO", "CHECKPOINT", "DMABUF",
                                         "EXPORTED"));

class FailedRenderRestore : public RenderHooks, public testing::WithParamInterface<const char*> {};

TEST_P(FailedRenderRestore, FailsTheHookAndAllThatWaitForIt) {
  const Fd render = open(kRenderPath);
  add_render(render, {make_bo(1)}, "file");
  const Mapping mapped = map(render, make_bo(1).mmap_offset);
  ASSERT_EQ(dump({&render}), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  state_.failures[GetParam()] = EIO;
  EXPECT_EQ(restore_file(1), -EIO);
  EXPECT_EQ(restore_file(1), -ECANCELED);
  EXPECT_EQ(update_vma(mapped.data()).offset, ~0xfffull);
  EXPECT_EQ(resume(getpid()), -EPROTO);
  end(kStageRestore, -1);
}
INSTANTIATE_TEST_SUITE_P(Operations, FailedRenderRestore,
                         testing::Values("SESSION", "RESTORE", "DMABUF"));

}  // namespace
}  // namespace amdgpu_criu::criu
