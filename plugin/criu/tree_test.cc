// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, for trees of processes that share files and objects.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>

#include "image/set.h"
#include "tests/criu_program.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing_support::FakeRender;
using testing_support::kGpu;
using testing_support::kKfdPath;
using testing_support::kRenderPath;
using testing_support::program;

kernel::Bo make_shared_bo(uint64_t id) {
  kernel::Bo bo{};
  bo.object_id = id;
  bo.size = 0x8000;
  bo.mmap_offset = id * 0x100000;
  bo.gpu_id = kGpu;
  bo.domain = AMDGPU_CRIU_DOMAIN_GTT;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED;
  return bo;
}

// An idle child with copies of all our descriptors.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) ::pause(), _exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    syscall(SYS_kill, pid_, SIGKILL);  // kill() is not libc's here
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class Trees : public testing_support::HooksTest {
 protected:
  void add_render(const Fd& file, const std::string& blob) {
    FakeRender& render = state_.renders.emplace_back();
    render.file = std::move(*file.duplicate());
    render.blob = blob;
    for (uint64_t id = 1; id <= 8; id++) {
      if (!state_.objects.contains(id)) add_object(state_, make_shared_bo(id), id);
      render.bos.push_back(make_shared_bo(id));
    }
  }
};

TEST_F(Trees, AFileThatAChildInheritedIsPausedAndSavedOnce) {
  const Fd render = open(kRenderPath);
  add_render(render, "shared");
  const Child child;
  state_.renders[0].userptrs_of = child.pid();
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_FALSE(state_.renders[0].paused);
  ASSERT_EQ(pause(child.pid()), 0) << log();
  EXPECT_TRUE(state_.renders[0].paused);
  ASSERT_EQ(dump_file(render, 1), 0) << log();
  end(kStageDump, 0);
  const auto set = image::Set::load(images_.fd());
  ASSERT_TRUE(set.ok()) << set.error().message();
  ASSERT_EQ(set->renders().size(), 1u);
  EXPECT_EQ(set->renders().at(0).pid, static_cast<uint32_t>(child.pid()));
  EXPECT_EQ(set->renders().at(0).holders.size(), 2u);

  // Opened in the parent, resumed for the child, in whose memory the userptrs are.
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd again(restore_file(1));
  ASSERT_TRUE(again.valid()) << log();
  EXPECT_EQ(resume(getpid()), -ENOTSUP) << log();
  EXPECT_EQ(resume(child.pid()), 0) << log();
  EXPECT_EQ(state_.restored.at(0).resumed, child.pid());
  end(kStageRestore, 0);
}

TEST_F(Trees, AFileThatNoHolderCanBePausedForIsRefusedAndAllContinue) {
  const Fd refused = open(kRenderPath), other = open(kRenderPath);
  add_render(refused, "refused");
  add_render(other, "other");
  const Child child;
  state_.renders[0].userptrs_of = 1;
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(pause(child.pid()), 0) << log();
  EXPECT_EQ(dump_file(other, 1), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("userptrs of another process"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.anything_paused());
}

// Work of one process may wait for memory that the queues of another one write, which are stopped
// already.
TEST_F(Trees, QueuesOfAnotherProcessRunUntilTheWorkOfFilesIsDone) {
  std::optional<Fd> kfd = open(kKfdPath);
  const Child owner;
  kfd.reset();
  state_.pid = owner.pid();
  state_.files_wait_for_queues = true;
  const Fd render = open(kRenderPath);
  add_render(render, "waits");
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(owner.pid()), 0) << log();
  EXPECT_TRUE(state_.paused);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_TRUE(state_.paused && state_.renders[0].paused);
  end(kStageDump, -1);
  EXPECT_FALSE(state_.anything_paused());
}

TEST_F(Trees, SharingWithOthersIsRefusedUnlessItMayBeCut) {
  const Fd render = open(kRenderPath);
  add_render(render, "shared");
  state_.outside = {.num_bos = 2, .pid = 1, .paused_pid = getpid(), .handle = 7, .size = 4096};
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(dump_file(render, 1), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("process 1 ("));
  EXPECT_THAT(log(), HasSubstr("2 BOs, one of them of 4096 bytes with handle 7 in process"));
  EXPECT_THAT(log(), HasSubstr("amdgpu.cut-sharing=1"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.anything_paused());

  state_.outside = {.num_syncobjs = 3, .pid = 1, .paused_pid = getpid(), .handle = 5};
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(dump_file(render, 1), -EINVAL);
  EXPECT_THAT(log(),
              HasSubstr("shares 3 syncobjs with dumped processes, one of them with handle 5"));
  end(kStageDump, -1);

  setenv("AMDGPU_CRIU_CUT_SHARING", "1", 1);
  ASSERT_EQ(start(kStageDump), 0);
  unsetenv("AMDGPU_CRIU_CUT_SHARING");
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(dump_file(render, 1), 0) << log();
  end(kStageDump, 0);
}

// The child has no GPU file, only what stands for dma-bufs here: it is not seen by OUTSIDE.
TEST_F(Trees, ADmabufOfAProcessThatIsNotDumpedIsRefusedUnlessItMayBeCut) {
  const kernel::Bo bo = make_shared_bo(1);
  add_object(state_, bo, 1);
  state_.exported[1] = bo;
  const Child child;
  const Fd render = open(kRenderPath);
  add_render(render, "exported");
  const auto dump_it = [&](int id, const Fd& file) {
    EXPECT_EQ(start(kStageDump), 0);
    EXPECT_EQ(pause(getpid()), 0) << log();
    const int result = dump_file(file, id);
    end(kStageDump, result);
    state_.marked.clear();
    return result;
  };
  EXPECT_EQ(dump_it(1, render), -EINVAL);
  EXPECT_THAT(log(), HasSubstr(formatted("process {} (", child.pid())));
  EXPECT_THAT(log(),
              HasSubstr(formatted("the BO of 32768 bytes with handle 0 in process {}", getpid())));
  EXPECT_THAT(log(), HasSubstr("amdgpu.cut-sharing=1"));
  EXPECT_FALSE(state_.anything_paused());

  setenv("AMDGPU_CRIU_CUT_SHARING", "1", 1);
  EXPECT_EQ(dump_it(1, render), 0) << log();
  unsetenv("AMDGPU_CRIU_CUT_SHARING");

  // Dumped processes may have no more of the BO than a descriptor.
  state_.renders[0].bos.clear();
  program.log.clear();
  EXPECT_EQ(dump_it(2, state_.objects.at(1)), -EINVAL);
  EXPECT_THAT(log(), HasSubstr(formatted("process {} (", child.pid())));
  EXPECT_THAT(log(), HasSubstr("32768 bytes, open as file 0x2"));
}

// To OUTSIDE, such a file is one paused client.
TEST_F(Trees, AFileThatAProcessOutsideHasTooIsRefusedUnlessItMayBeCut) {
  const Fd render = open(kRenderPath);
  add_render(render, "inherited");
  state_.renders[0].bos.clear();
  state_.objects.clear();
  const Child child;
  const Fd own = open(kRenderPath);
  add_render(own, "own");
  const auto dump_them = [&] {
    EXPECT_EQ(start(kStageDump), 0);
    EXPECT_EQ(pause(getpid()), 0) << log();
    int result = dump_file(own, 1);
    if (result == 0) result = dump_file(render, 2);
    end(kStageDump, result);
    return result;
  };
  EXPECT_EQ(dump_them(), -EINVAL);
  EXPECT_THAT(log(), HasSubstr(formatted("process {} (", child.pid())));
  EXPECT_THAT(log(), HasSubstr(formatted("has the open renderD5 of process {} (", getpid())));
  EXPECT_THAT(log(), HasSubstr(formatted(") as descriptor {}.", render.get())));
  EXPECT_THAT(log(), Not(HasSubstr(formatted(") as descriptor {}.", own.get()))));
  EXPECT_THAT(log(), HasSubstr("amdgpu.cut-sharing=1"));
  EXPECT_FALSE(state_.anything_paused());

  setenv("AMDGPU_CRIU_CUT_SHARING", "1", 1);
  EXPECT_EQ(dump_them(), 0) << log();
  unsetenv("AMDGPU_CRIU_CUT_SHARING");
}

// Even if that process uses no GPU, CRIU dumps its descriptors.
TEST_F(Trees, ADmabufOfAnotherDumpedProcessIsCarried) {
  add_object(state_, make_shared_bo(1), 1);
  const Child child;
  const Fd render = open(kRenderPath);
  add_render(render, "exported");
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(child.pid()), -ENOTSUP) << log();
  ASSERT_EQ(pause(getpid()), 0) << log();
  EXPECT_EQ(dump_file(render, 1), 0) << log();
  end(kStageDump, 0);
}

TEST_F(Trees, ADmabufOfATreeThatHasNothingElseIsCarried) {
  state_.exported[1] = make_shared_bo(1);
  add_object(state_, make_shared_bo(1), 1);
  const Child child;
  ASSERT_EQ(start(kStageDump), 0);
  EXPECT_EQ(pause(child.pid()), -ENOTSUP) << log();
  EXPECT_EQ(pause(getpid()), -ENOTSUP) << log();
  EXPECT_EQ(dump_file(state_.objects.at(1), 1), 0) << log();
  end(kStageDump, 0);
}

// CRIU opens a file of two processes in the one with the lower number. That is not the parent if
// numbers have wrapped.
TEST_F(Trees, AKfdFileInTheWrongProcessIsRefused) {
  const Fd kfd = open(kKfdPath);
  const Child child;
  state_.pid = std::max(getpid(), child.pid());
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(pause(child.pid()), 0) << log();
  EXPECT_EQ(dump_file(kfd, 1), -EINVAL);
  EXPECT_THAT(log(), HasSubstr("works only in the process that opened it"));
  end(kStageDump, -1);
  EXPECT_FALSE(state_.anything_paused());
}

TEST_F(Trees, AKfdFileOfTwoProcessesBelongsToTheOneThatOpenedIt) {
  const Fd kfd = open(kKfdPath);
  state_.blob = {std::byte{1}};
  const Child child;
  state_.pid = std::min(getpid(), child.pid());
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(pause(child.pid()), 0) << log();
  EXPECT_EQ(dump_file(kfd, 1), 0) << log();
  end(kStageDump, 0);
  EXPECT_FALSE(state_.anything_paused());
  const auto set = image::Set::load(images_.fd());
  ASSERT_TRUE(set.ok()) << set.error().message();
  EXPECT_EQ(set->processes().size(), 1u);
}

// All tasks at once restore files that share all objects, and two of them the same file.
TEST_F(Trees, ConcurrentTasksRestoreEachFileAndFillEachObjectOnce) {
  constexpr int kFiles = 6;
  std::vector<Fd> files;
  for (int i = 0; i < kFiles; i++) {
    files.push_back(open(kRenderPath));
    add_render(files.back(), formatted("file {}", i));
  }
  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  for (int i = 0; i < kFiles; i++) ASSERT_EQ(dump_file(files[i], i + 1), 0) << log();
  end(kStageDump, 0);
  std::map<uint64_t, std::string> before;
  for (const auto& [id, memory] : state_.objects) before[id] = contents_of(state_, id);

  clear_objects(state_);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  std::vector<pid_t> tasks;
  for (int i = 0; i < 2 * kFiles; i++) {
    tasks.push_back(fork());
    if (tasks.back() == 0) _exit(restore_file(i / 2 + 1) >= 0 ? 0 : 1);
  }
  for (const pid_t task : tasks) {
    int status = -1;
    waitpid(task, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < kFiles; i++)
    EXPECT_EQ(state_.times_restored(formatted("file {}", i)), 1) << i;
  for (const auto& [id, bytes] : before) {
    EXPECT_EQ(state_.bytes_filled(id), bytes.size()) << id;
    EXPECT_EQ(contents_of(state_, id), bytes) << id;
  }
  EXPECT_EQ(state_.shared().sessions, 1);
  end(kStageRestore, 0);
}

}  // namespace
}  // namespace amdgpu_criu::criu
