// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU 4.2 and later do: contents are filled while the tasks are restored.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "criu/program.h"
#include "image/set.h"
#include "pipeline/workers.h"
#include "tests/criu_program.h"
#include "tests/few_threads.h"
#include "tests/patience.h"

namespace amdgpu_criu::criu {
namespace {

using testing::HasSubstr;
using testing_support::call;
using testing_support::child_of_ours;
using testing_support::FakeRender;
using testing_support::kGpu;
using testing_support::kOtherGpu;
using testing_support::kOtherMinor;
using testing_support::kOtherPath;
using testing_support::kRenderPath;
using testing_support::patient;
using testing_support::program;

constexpr int kFiles = 4;
constexpr uint64_t kBos = 8;
constexpr uint64_t kShare = 0x8000;  // of a BO
constexpr uint64_t kShareOfGpu = kBos / 2 * kShare;

kernel::Bo make_bo_of_either_gpu(uint64_t id) {
  kernel::Bo bo{};
  bo.object_id = id;
  bo.size = kShare;
  bo.mmap_offset = id * 0x100000;
  bo.gpu_id = id % 2 ? kGpu : kOtherGpu;
  bo.domain = AMDGPU_CRIU_DOMAIN_GTT;
  bo.flags = AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED;
  return bo;
}

class Parallel : public testing_support::HooksTest {
 protected:
  void SetUp() override {
    HooksTest::SetUp();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    machine_has_kfd_ = false;
    write_topology(kOtherGpu, 16, kOtherMinor);
  }

  void TearDown() override {
    HooksTest::TearDown();
    reap();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  // Processes that have ended. Returns what waitpid(2) returns then.
  static pid_t reap() {
    pid_t ended;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    return ended;
  }
  static bool no_child_is_left() { return reap() < 0; }

  // CRIU's main process waits for tasks.
  void count_tasks() { task_entries = &counters_; }
  static int post_forking() { return call<PostForking>(kPostForking); }

  // Files on two GPUs. Each file has all objects.
  std::vector<Fd> add_files() {
    std::vector<Fd> files;
    for (int i = 0; i < kFiles; i++) {
      files.push_back(open(i % 2 ? kOtherPath : kRenderPath));
      FakeRender& render = state_.renders.emplace_back();
      render.file = std::move(*files.back().duplicate());
      render.blob = formatted("file {}", i);
      for (uint64_t id = 1; id <= kBos; id++) {
        if (!state_.objects.contains(id)) add_object(state_, make_bo_of_either_gpu(id), id);
        render.bos.push_back(make_bo_of_either_gpu(id));
      }
    }
    return files;
  }

  // Like CRIU, stops at the first error.
  int dump() {
    const std::vector<Fd> files = add_files();
    int result = start(kStageDump);
    if (result == 0) result = pause(getpid());
    for (int i = 0; result == 0 && i < kFiles; i++) result = dump_file(files[i], i + 1);
    end(kStageDump, result);
    reap();
    return result;
  }

  void prepare() {
    ASSERT_EQ(dump(), 0) << log();
    before_ = contents();
    clear_objects(state_);
    testing_support::make_fd_store_known();
  }

  std::map<uint64_t, std::string> contents() const {
    std::map<uint64_t, std::string> result;
    for (const auto& [id, memory] : state_.objects) result[id] = contents_of(state_, id);
    return result;
  }

  // Each file in a task of its own.
  void restore_all() {
    std::vector<pid_t> tasks;
    for (int i = 0; i < kFiles; i++) {
      tasks.push_back(fork());
      if (tasks.back() == 0) _exit(restore_file(i + 1) >= 0 ? 0 : 1);
    }
    for (const pid_t task : tasks) {
      int status = -1;
      ASSERT_EQ(waitpid(task, &status, 0), task);
      EXPECT_EQ(status, 0);
    }
  }

  void damage(const std::string& name) {
    std::string bytes = images_.read(name);
    bytes[image::kDataStart] ^= 1;
    images_.write(name, bytes);
  }

  std::map<uint64_t, std::string> before_;
  TaskEntries counters_{1, 1, 0, 1};
};

TEST_F(Parallel, TheFailureOfOneGpuStopsTheOthers) {
  testing_support::fail_copies_after = 0;
  state_.before_dmabuf = [] {
    static std::atomic<int> calls = 0;
    if (calls++ > 0)
      for (;;) ::pause();
  };
  EXPECT_EQ(dump(), -EIO);
  EXPECT_THAT(log(), HasSubstr("injected failure of a copy"));
  EXPECT_THAT(images_.names(), testing::IsEmpty());
}

TEST_F(Parallel, GpusDoNotWaitForEachOthersDmaBufs) {
  state_.before_dmabuf = [] {
    static std::atomic<int> calls = 0;
    calls++;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (calls < 2)
      if (std::chrono::steady_clock::now() > end) throw std::bad_alloc();
  };
  EXPECT_EQ(dump(), 0) << log();
}

// The first GPU that copies waits until the other one has copied all of its own.
TEST_F(Parallel, GpusDoNotWaitForEachOthersCopies) {
  const auto hold_first_until = [](const std::function<bool()>& done) {
    testing_support::during_copies = [done] {
      static std::atomic<int> calls = 0;
      if (calls++ > 0) return;
      const auto end = std::chrono::steady_clock::now() + patient(std::chrono::seconds(20));
      for (; !done(); std::this_thread::sleep_for(std::chrono::milliseconds(1)))
        if (std::chrono::steady_clock::now() > end) throw std::bad_alloc();
    };
  };
  const uint64_t before = testing_support::bytes_read;
  hold_first_until([&] { return testing_support::bytes_read - before >= kShareOfGpu; });
  prepare();
  hold_first_until([&] {
    uint64_t filled[2] = {};
    for (const auto& [id, bytes] : before_) filled[id % 2] += state_.bytes_filled(id);
    return filled[0] == kShareOfGpu || filled[1] == kShareOfGpu;
  });
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  EXPECT_EQ(contents(), before_);
  end(kStageRestore, 0);
  testing_support::during_copies = nullptr;
}

TEST_F(Parallel, ContentsOfAllGpusAreFilledWhenTasksAreResumed) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  EXPECT_EQ(contents(), before_);
  for (const auto& [id, bytes] : before_) EXPECT_EQ(state_.bytes_filled(id), bytes.size()) << id;
  EXPECT_EQ(state_.shared().sessions, 1);
  end(kStageRestore, 0);
  EXPECT_TRUE(no_child_is_left());
}

uint32_t read_number(const char* path) {
  uint32_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

constexpr char kNsLastPid[] = "/proc/sys/kernel/ns_last_pid";

// Another test may have a helper at the moment.
bool falls_below(uint32_t number) {
  for (int i = 0; i < 500 && read_number(kNsLastPid) >= number; i++) usleep(10000);
  return read_number(kNsLastPid) < number;
}

// The tasks have the highest number and the third highest one. The helpers have others near them,
// and no other one for a moment.
TEST_F(Parallel, HelpersTakeNoNumberThatATaskNeeds) {
  prepare();
  const uint32_t end_of_numbers = read_number("/proc/sys/kernel/pid_max");
  std::string entry{'\x08', '\x07', '\x10', '\x00', '\x18', '\x07', '\x20', '\x07', '\x28', '\x07'};
  for (const uint32_t thread : {end_of_numbers - 1, end_of_numbers - 3}) {
    entry += '\x28';
    for (uint32_t rest = thread; rest > 0; rest >>= 7)
      entry += static_cast<char>(rest > 0x7f ? 0x80 | (rest & 0x7f) : rest);
  }
  const auto size = static_cast<char>(entry.size());
  images_.write("pstree.img", std::string(8, 'm') + std::string{size, 0, 0, 0} + entry);
  EXPECT_THAT(*numbers_of_tasks(images_.fd()),
              testing::UnorderedElementsAre(7, 0, end_of_numbers - 1, end_of_numbers - 3));
  if (access(kNsLastPid, W_OK) != 0) GTEST_SKIP() << "numbers cannot be chosen";
  if (!falls_below(end_of_numbers - 5000)) std::ofstream(kNsLastPid) << 1000;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  int helpers = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator(formatted("/proc/{}/task", child_of_ours()))) {
    const auto number = static_cast<uint32_t>(std::stoul(thread.path().filename()));
    EXPECT_GT(number, end_of_numbers - 5000);
    EXPECT_LT(number, end_of_numbers - 2000);
    helpers++;
  }
  EXPECT_GE(helpers, 12)
      << "a thread for each GPU and its files, one for the work, and the process";
  EXPECT_TRUE(falls_below(end_of_numbers - 5000));
  end(kStageRestore, -1);
}

// As if another restore had a helper at the same time, or had been killed.
TEST_F(Parallel, HelpersLeaveNoHighNumberBehind) {
  prepare();
  if (access(kNsLastPid, W_OK) != 0) GTEST_SKIP() << "numbers cannot be chosen";
  const uint32_t high = read_number("/proc/sys/kernel/pid_max") - 1000;
  std::ofstream(kNsLastPid) << high;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, -1);
  EXPECT_TRUE(falls_below(high - 1500));
}

// The kernel chooses the number of a thread that is created, or that it creates for a file, while
// the tasks are restored. For io_uring it creates some, at least if a file is in memory.
TEST_F(Parallel, FillingCreatesNoThread) {
  const testing_support::TempDir in_memory("/dev/shm");
  program.image_directory = in_memory.fd();
  prepare();
  const Mapping memory = std::move(
      *Mapping::map(sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  auto& most = *new (memory.data()) std::atomic<int>(0);
  const auto threads_of = [](const std::string& process) {
    return static_cast<int>(std::ranges::distance(
        std::filesystem::directory_iterator(formatted("/proc/{}/task", process))));
  };
  testing_support::during_copies = [&] { most = std::max(most.load(), threads_of("self")); };
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const int before = threads_of(std::to_string(child_of_ours()));
  restore_all();
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  testing_support::during_copies = {};
  end(kStageRestore, 0);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, before);
}

// CRIU's main process waits until all threads exist, and no task does yet. The last threads are
// those that fill, one for each GPU.
TEST_F(Parallel, AThreadThatCannotBeCreatedFailsTheRestoreBeforeTasks) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const auto threads = static_cast<int>(std::ranges::distance(
      std::filesystem::directory_iterator(formatted("/proc/{}/task", child_of_ours()))));
  end(kStageRestore, -1);
  const struct {
    int most;
    std::string error;
  } limits[] = {{threads - 2, formatted("no thread can fill GPU {:#x}: ", kOtherGpu)},
                {threads - 3, formatted("no thread can fill GPU {:#x}: ", kGpu)},
                {1, "no thread can fill GPU "},
                {0, "in the background: "}};
  alarm(static_cast<unsigned>(patient(std::chrono::minutes(1)) / std::chrono::seconds(1)));
  for (const auto& [most, error] : limits) {
    testing_support::threads_left = most;
    EXPECT_LT(start(kStageRestore), 0);
    testing_support::threads_left = -1;
    EXPECT_THAT(log(), HasSubstr(error));
    end(kStageRestore, -1);
    EXPECT_TRUE(no_child_is_left());
    program.log.clear();
  }
  alarm(0);
}

// Copies of other GPUs may take long, and the processes are paused. The last threads of a dump are
// those that save, one for each GPU.
TEST_F(Parallel, AThreadThatCannotBeCreatedFailsTheDumpAtOnce) {
  const auto workers =
      pipeline::threads_by_bytes({kShareOfGpu, kShareOfGpu}, std::thread::hardware_concurrency());
  setenv("AMDGPU_CRIU_TIMEOUT", "20", 1);
  testing_support::during_copies = [] { ::pause(); };
  testing_support::threads_left = static_cast<int>(workers[0] + workers[1]) + 2;
  EXPECT_EQ(dump(), -ENOMEM);
  testing_support::threads_left = -1;
  testing_support::during_copies = {};
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  EXPECT_THAT(log(), HasSubstr(formatted("no thread can save memory of GPU {:#x}: ", kOtherGpu)));
  EXPECT_THAT(images_.names(), testing::IsEmpty());
}

TEST_F(Parallel, ADamagedProcessTreeIsAnErrorAndStopsNoRestore) {
  prepare();
  images_.write("pstree.img", std::string(8, 'm') + std::string{2, 0, 0, 0} + "\x08\xff");
  EXPECT_EQ(numbers_of_tasks(images_.fd()).error().code(), EBADMSG);
  EXPECT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, -1);
}

// Tasks do not wait: they are restored even if the background process is stopped.
TEST_F(Parallel, TasksDoNotWaitForContents) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const pid_t background = child_of_ours();
  ASSERT_GT(background, 0);
  syscall(SYS_kill, background, SIGSTOP);
  restore_all();
  EXPECT_NE(contents(), before_);
  syscall(SYS_kill, background, SIGCONT);
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  EXPECT_EQ(contents(), before_);
  end(kStageRestore, 0);
}

// Offsets have 64 bits everywhere, and staging memory does not grow with the BO.
TEST_F(Parallel, ABoOfFiveGibibytes) {
  constexpr uint64_t kSize = 5ull << 30;
  constexpr uint64_t kPlaces[] = {4096, (2ull << 30) - 4096, (4ull << 30) - 4096, 4ull << 30,
                                  kSize - 4096};
  ASSERT_LE(gpu::StagingSize().total(), gpu::kMaxStaging);
  staging_kib_ = gpu::StagingSize().bytes >> 10;
  setenv("AMDGPU_CRIU_STAGING_SLOTS", std::to_string(gpu::StagingSize().slots).c_str(), 1);
  kernel::Bo bo = make_bo_of_either_gpu(9);
  bo.size = kSize;
  Fd memory(memfd_create("large", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), kSize), 0);
  auto write_at = [&](uint64_t place, char byte) {
    const std::string page(4096, byte);
    ASSERT_EQ(pwrite(memory.get(), page.data(), page.size(), place), 4096);
  };
  for (const uint64_t place : kPlaces) write_at(place, static_cast<char>(1 + place / 4096 % 101));
  state_.objects[9] = std::move(*memory.duplicate());
  const Fd file = open(kRenderPath);
  state_.renders.resize(1);
  state_.renders[0].file = std::move(*file.duplicate());
  state_.renders[0].blob = "file 0";
  state_.renders[0].bos = {bo};

  ASSERT_EQ(start(kStageDump), 0);
  ASSERT_EQ(pause(getpid()), 0) << log();
  ASSERT_EQ(dump_file(file, 1), 0) << log();
  end(kStageDump, 0);
  EXPECT_EQ(state_.shared().most_staging, gpu::StagingSize().total());
  EXPECT_LT(std::filesystem::file_size(images_.file(image::contents_file_name(0, kGpu))),
            16u << 20);

  clear_objects(state_);
  // Zeros must be restored, too.
  for (const uint64_t place : {3ull << 30, (4ull << 30) + (300ull << 20)}) write_at(place, 'x');
  testing_support::make_fd_store_known();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const Fd restored(restore_file(1));
  ASSERT_TRUE(restored.valid()) << log();
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  end(kStageRestore, 0);
  unsetenv("AMDGPU_CRIU_STAGING_SLOTS");
  EXPECT_EQ(state_.bytes_filled(9), kSize);
  EXPECT_EQ(state_.shared().most_staging, gpu::StagingSize().total());
  std::map<uint64_t, char> expected, found;
  for (const uint64_t place : kPlaces) expected[place] = static_cast<char>(1 + place / 4096 % 101);
  std::string page(4096, 0);
  for (off_t at = 0; (at = lseek(memory.get(), at, SEEK_DATA)) >= 0; at += 4096) {
    ASSERT_EQ(pread(memory.get(), page.data(), page.size(), at), 4096);
    if (page != std::string(4096, 0)) found[at] = page == std::string(4096, page[0]) ? page[0] : -1;
  }
  EXPECT_EQ(found, expected);
}

TEST_F(Parallel, CanBeTurnedOff) {
  prepare();
  setenv("AMDGPU_CRIU_PARALLEL", "off", 1);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  unsetenv("AMDGPU_CRIU_PARALLEL");
  syscall(SYS_kill, child_of_ours(), SIGSTOP);
  restore_all();
  EXPECT_EQ(contents(), before_);
  end(kStageRestore, 0);
}

TEST_F(Parallel, DamageFailsTheRestoreAndKillsTheTasks) {
  prepare();
  const std::string name = image::contents_file_name(0, kOtherGpu);
  damage(name);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  EXPECT_EQ(resume(1), -EBADMSG);
  EXPECT_THAT(log(), HasSubstr(name));
  EXPECT_THAT(log(), HasSubstr("checksum"));
  EXPECT_EQ(resume(2), -EBADMSG);
  EXPECT_EQ(program.killed, (std::vector<pid_t>{1, 2}));
  end(kStageRestore, -1);
}

TEST_F(Parallel, TheDeathOfTheBackgroundFailsTheRestore) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  syscall(SYS_kill, child_of_ours(), SIGKILL);
  restore_all();
  EXPECT_EQ(resume(1), -ECHILD);
  EXPECT_THAT(log(), HasSubstr("in the background has died"));
  end(kStageRestore, -1);
}

TEST_F(Parallel, AnExceptionInTheBackgroundFailsTheRestore) {
  prepare();
  state_.before_dmabuf = [] { throw std::bad_alloc(); };
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  EXPECT_EQ(resume(1), -ENOMEM);
  EXPECT_THAT(log(), HasSubstr("bad_alloc"));
  EXPECT_THAT(log(), testing::Not(HasSubstr("has died")));
  end(kStageRestore, -1);
}

TEST_F(Parallel, AMissingTaskFailsTheRestore) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  EXPECT_EQ(resume(1), -EPROTO);
  EXPECT_THAT(log(), HasSubstr("was not restored"));
  end(kStageRestore, -1);
}

// CRIU then runs scripts, writes its pidfile and unlocks the network.
TEST_F(Parallel, ContentsAreInPlaceWhenCriuGoesOn) {
  prepare();
  count_tasks();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  EXPECT_GT(CR_PLUGIN_DESC.max_hooks, kPostForking);
  const pid_t background = child_of_ours();
  syscall(SYS_kill, background, SIGSTOP);
  restore_all();
  std::jthread tasks([&] {
    usleep(100 * 1000);
    __atomic_store_n(&counters_.in_progress, 0, __ATOMIC_SEQ_CST);
    usleep(100 * 1000);
    syscall(SYS_kill, background, SIGCONT);
  });
  EXPECT_EQ(post_forking(), -ENOTSUP) << log();
  EXPECT_EQ(contents(), before_);
  tasks.join();
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  end(kStageRestore, 0);
}

TEST_F(Parallel, DamageFailsTheRestoreBeforeCriuGoesOn) {
  prepare();
  damage(image::contents_file_name(0, kOtherGpu));
  count_tasks();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  EXPECT_EQ(post_forking(), -EBADMSG) << "before the tasks are done";
  end(kStageRestore, -1);
  EXPECT_THAT(log().substr(log().rfind("Error")), HasSubstr("checksum"));
}

TEST_F(Parallel, AMissingTaskFailsTheRestoreBeforeCriuGoesOn) {
  prepare();
  count_tasks();
  counters_.in_progress = 0;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  EXPECT_EQ(post_forking(), -EPROTO);
  EXPECT_THAT(log(), HasSubstr("was not restored"));
  end(kStageRestore, -1);
}

// CRIU kills the other tasks, which may wait for it.
TEST_F(Parallel, ATaskThatFailsEndsTheWaitForContents) {
  prepare();
  count_tasks();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  syscall(SYS_kill, child_of_ours(), SIGSTOP);
  std::jthread task([&] {
    usleep(100 * 1000);
    __atomic_store_n(&counters_.in_progress, -1, __ATOMIC_SEQ_CST);
  });
  EXPECT_EQ(post_forking(), -ENOTSUP) << log();
  end(kStageRestore, -1);
  EXPECT_TRUE(no_child_is_left());
}

TEST_F(Parallel, ARestoreThatTakesTooLongFails) {
  prepare();
  count_tasks();
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  const auto start_of_restore = std::chrono::steady_clock::now();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  restore_all();
  syscall(SYS_kill, child_of_ours(), SIGSTOP);
  EXPECT_EQ(post_forking(), -ETIME);
  EXPECT_GE(std::chrono::steady_clock::now() - start_of_restore, std::chrono::seconds(1));
  EXPECT_THAT(log(), HasSubstr("the restore was aborted: its GPU part took longer than the 1 s"));
  end(kStageRestore, -1);
  EXPECT_TRUE(no_child_is_left());
}

// CRIU blocks signals while it restores.
TEST_F(Parallel, ASignalEndsARestore) {
  prepare();
  count_tasks();
  for (const bool blocked : {false, true}) {
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    if (blocked) sigprocmask(SIG_BLOCK, &terminate, nullptr);
    ASSERT_EQ(start(kStageRestore), 0) << log();
    syscall(SYS_kill, child_of_ours(), SIGSTOP);
    const pid_t criu = gettid();
    std::jthread user([criu] {
      usleep(100 * 1000);
      syscall(SYS_tgkill, getpid(), criu, SIGTERM);
    });
    EXPECT_EQ(post_forking(), -EINTR);
    EXPECT_THAT(log(), HasSubstr("the restore was aborted by SIGTERM"));
    end(kStageRestore, -1);
    user.join();
    if (blocked) {
      constexpr timespec kNow{};
      EXPECT_EQ(sigtimedwait(&terminate, nullptr, &kNow), SIGTERM);
      sigprocmask(SIG_UNBLOCK, &terminate, nullptr);
    }
    EXPECT_TRUE(no_child_is_left());
  }
}

// CRIU's main process waits for a task whose file system does not answer.
TEST_F(Parallel, ATaskThatDoesNotAnswerIsKilledAfterTheDeadline) {
  prepare();
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  ASSERT_EQ(start(kStageRestore), 0) << log();
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  const pid_t task = fork();
  if (task == 0)
    for (;;) ::pause();
  int status = 0;
  ASSERT_EQ(waitpid(task, &status, 0), task);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  end(kStageRestore, -1);
  EXPECT_THAT(log().substr(log().rfind("Error")), HasSubstr("longer than the 1 s"));
}

// CRIU then runs scripts, which may take long and may have ended the original.
TEST_F(Parallel, ASignalAfterTheCommitKillsNoTask) {
  prepare();
  count_tasks();
  counters_.in_progress = 0;
  ASSERT_EQ(start(kStageRestore), 0) << log();
  const pid_t task = fork();
  if (task == 0)
    for (;;) ::pause();
  restore_all();
  EXPECT_EQ(post_forking(), -ENOTSUP) << log();
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  sigprocmask(SIG_BLOCK, &terminate, nullptr);
  syscall(SYS_tgkill, getpid(), gettid(), SIGTERM);
  usleep(500 * 1000);
  EXPECT_EQ(waitpid(task, nullptr, WNOHANG), 0);
  EXPECT_EQ(resume(1), -ENOTSUP) << log();
  end(kStageRestore, 0);
  syscall(SYS_kill, task, SIGKILL);
  waitpid(task, nullptr, 0);
  constexpr timespec kNow{};
  EXPECT_EQ(sigtimedwait(&terminate, nullptr, &kNow), SIGTERM);
  sigprocmask(SIG_UNBLOCK, &terminate, nullptr);
}

// For the program that has started CRIU.
TEST_F(Parallel, ADescriptorGetsTheStatusAsLinesOfJson) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const auto lines = [&] {
    std::string text(1 << 16, 0);
    text.resize(std::max<ssize_t>(0, read(reader.get(), text.data(), text.size())));
    return text;
  };
  setenv("AMDGPU_CRIU_STATUS_FD", std::to_string(writer.get()).c_str(), 1);
  setenv("AMDGPU_CRIU_TIMEOUT", "60", 1);
  prepare();
  EXPECT_THAT(
      lines(),
      testing::ContainsRegex(
          "^.\"version\": 1, \"operation\": \"dump\", \"phase\": \"pausing\", "
          "\"seconds_left\": [56][0-9.]+.\n"
          "(.*\"phase\": \"saving\", \"gpu_id\": 1[78], \"bytes\": 131072, \"total_bytes\": "
          "131072, \"bytes_per_second\": [0-9]+, \"seconds_left\": [56][0-9.]+.\n)+"
          ".*\"phase\": \"succeeded\", \"seconds_left\": [0-9.]+.\n$"));
  ASSERT_EQ(start(kStageRestore), 0) << log();
  restore_all();
  count_tasks();
  counters_.in_progress = 0;
  EXPECT_EQ(post_forking(), -ENOTSUP) << log();
  const std::string restored = lines();
  for (const char* phase : {"creating", "filling", "filled"})
    EXPECT_THAT(restored, HasSubstr(formatted("\"restore\", \"phase\": \"{}\"", phase)));
  end(kStageRestore, -1);
  EXPECT_THAT(lines(), HasSubstr("\"phase\": \"failed\""));
  // Nobody reads it, or nobody empties it.
  ASSERT_EQ(start(kStageRestore), 0) << log();
  std::string much(1 << 20, 'x');
  EXPECT_GT(write(writer.get(), much.data(), much.size()), 0);
  end(kStageRestore, -1);
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  setenv("AMDGPU_CRIU_STATUS_FD", std::to_string(reader.get()).c_str(), 1);
  ASSERT_EQ(start(kStageRestore), 0);
  EXPECT_THAT(log(), HasSubstr("is not open for writing"));
  end(kStageRestore, -1);
  unsetenv("AMDGPU_CRIU_STATUS_FD");
}

// The background process looks for tasks from time to time.
TEST_F(Parallel, ATaskThatWasForkedJustBeforeCriuDiesIsKilled) {
  prepare();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]), writer(ends[1]);
  const pid_t criu = fork();
  if (criu == 0) {
    if (start(kStageRestore) != 0) _exit(1);
    const pid_t task = fork();
    if (task == 0)
      for (;;) ::pause();
    (void)!write(writer.get(), &task, sizeof(task));
    syscall(SYS_kill, getpid(), SIGKILL);
  }
  pid_t task = 0;
  ASSERT_EQ(read(reader.get(), &task, sizeof(task)), static_cast<ssize_t>(sizeof(task)));
  ASSERT_EQ(waitpid(criu, nullptr, 0), criu);
  int status = 0;
  for (int i = 0; i < 500 && waitpid(task, &status, WNOHANG) == 0; i++) usleep(10000);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  if (status == 0) syscall(SYS_kill, task, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) continue;
}

TEST_F(Parallel, AFailedRestoreLeavesNoProcess) {
  prepare();
  ASSERT_EQ(start(kStageRestore), 0) << log();
  end(kStageRestore, -1);
  EXPECT_TRUE(no_child_is_left());
}

}  // namespace
}  // namespace amdgpu_criu::criu
