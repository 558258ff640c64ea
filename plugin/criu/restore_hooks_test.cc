// SPDX-License-Identifier: GPL-2.0
// Drives the plugin through its descriptor as CRIU does, for a restore of one process that uses
// /dev/kfd, with a kernel and a GPU made of memfds.
#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "image/set.h"
#include "tests/kfd_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing_support::kGpu;
using testing_support::program;

using Hooks = testing_support::KfdHooksTest;
using testing_support::kKfdId;
using testing_support::kOffset;
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

TEST_F(Hooks, MissingImagesAreAnErrorIfCriusInventoryNamesThePlugin) {
  ASSERT_EQ(dump(), 0) << log();
  for (const std::string& name : images_.names()) std::filesystem::remove(images_.file(name));
  EXPECT_EQ(start(kStageRestore), -ENOENT);
  EXPECT_THAT(log(), HasSubstr("none of its images (amdgpu-*.img)"));
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

TEST_F(Hooks, ImagesThatDoNotAskForThePluginAreLeftAlone) {
  images_.write("amdgpu-process-0.img", "damaged");
  program.in_inventory = false;
  EXPECT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(restore_file(kKfdId), -ENOTSUP);
  EXPECT_EQ(resume(getpid()), -ENOTSUP);
  end(kStageRestore, 0);
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

TEST_F(Hooks, AMissingTaskFailsTheRestore) {
  ASSERT_EQ(dump(), 0) << log();
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_EQ(resume(getpid()), -EPROTO);
  EXPECT_THAT(log(), HasSubstr("/dev/kfd of process"));
  EXPECT_THAT(log(), HasSubstr("was not restored"));
  EXPECT_EQ(program.killed, std::vector<pid_t>{getpid()});
  end(kStageRestore, -1);
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
