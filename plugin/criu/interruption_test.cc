// SPDX-License-Identifier: GPL-2.0
// Drives the plugin as CRIU does, and ends dumps early: by signals and by the deadline.
#include "dump/doomed_images.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/kfd_program.h"
#include "tests/patience.h"

namespace amdgpu_criu::criu {
namespace {

constexpr std::chrono::seconds kPromptly{1};

// In memory that forked processes share.
struct SharedDisk {
  std::atomic<bool> hangs, is_waited_for;
  std::atomic<std::chrono::steady_clock::rep> signalled;  // when
};
SharedDisk& shared_disk() {
  static const Mapping memory = std::move(
      *Mapping::map(sizeof(SharedDisk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  return *reinterpret_cast<SharedDisk*>(memory.data());
}

// A disk that does not complete writes while one of these exists.
class HangingDisk {
 public:
  HangingDisk() {
    shared_disk().is_waited_for = false;
    shared_disk().hangs = true;
  }
  HangingDisk(const HangingDisk&) = delete;
  HangingDisk& operator=(const HangingDisk&) = delete;
  ~HangingDisk() { shared_disk().hangs = false; }
  static void wait() {
    while (shared_disk().hangs) {
      shared_disk().is_waited_for = true;
      usleep(1000);
    }
  }
};

// Memory of this process whose pages arrive only when this ends, as with a daemon of CRIU that
// waits for the network. Without an end, a wait for them would have none.
class LateMemory {
 public:
  explicit LateMemory(std::chrono::milliseconds end)
      : file_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC))) {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{.range = {reinterpret_cast<uintptr_t>(memory_.data()), memory_.size()},
                          .mode = UFFDIO_REGISTER_MODE_MISSING,
                          .ioctls = 0};
    is_late_ = ioctl(file_.get(), UFFDIO_API, &api) == 0 &&
               ioctl(file_.get(), UFFDIO_REGISTER, &range) == 0;
    end_ = std::jthread([this, end](const std::stop_token& stop) {
      for (auto left = end; left.count() > 0 && !stop.stop_requested();
           left -= std::chrono::milliseconds(10))
        usleep(10'000);
      file_.reset();
    });
  }
  bool is_late() const { return is_late_; }

 private:
  Mapping memory_ =
      std::move(*Mapping::map(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
  Fd file_;
  bool is_late_ = false;
  std::jthread end_;
};

class Interrupted : public testing_support::KfdHooksTest {
 protected:
  // The end of the dump, by when the process continues, is at most a second after `event`.
  static void expect_prompt(std::chrono::steady_clock::time_point event) {
    EXPECT_LT(std::chrono::steady_clock::now() - event, testing_support::patient(kPromptly));
  }

  // The signal arrives while the dump waits for the disk.
  int dump_and_signal_at_disk() {
    std::chrono::steady_clock::time_point signalled;
    const pthread_t criu = pthread_self();
    std::jthread user([criu, &signalled] {
      while (!shared_disk().is_waited_for) usleep(1000);
      signalled = std::chrono::steady_clock::now();
      pthread_kill(criu, SIGTERM);
    });
    const int result = dump();
    user.join();
    expect_prompt(signalled);
    return result;
  }

  // A CRIU that has dumped the child `process` gets a signal after `end`.
  void expect_images_stay(pid_t process, const std::function<void()>& end) {
    const pid_t criu = fork();
    if (criu == 0) {
      const auto doomed = dump::DoomedImages::create(images_.fd(), {process});
      end();
      raise(doomed.ok() ? SIGINT : SIGKILL);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(criu, &status, 0), criu);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    EXPECT_THAT(images_.names(), testing::ElementsAre("amdgpu-process-0.img"));
    EXPECT_EQ(waitpid(process, nullptr, 0), process);
  }
};
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::program;

TEST_F(Interrupted, ASignalEndsTheDumpAndContinuesTheProcess) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    program.log.clear();
    shared_disk().signalled = 0;
    testing_support::during_copies = [number, criu = getpid()] {
      if (shared_disk().signalled != 0) return;
      shared_disk().signalled = std::chrono::steady_clock::now().time_since_epoch().count();
      syscall(SYS_kill, criu, number);
      usleep(300 * 1000);
    };
    EXPECT_EQ(dump(), -EINTR);
    using Clock = std::chrono::steady_clock;
    expect_prompt(Clock::time_point(Clock::duration(shared_disk().signalled)));
    testing_support::during_copies = {};
    EXPECT_THAT(log(), HasSubstr("the dump was aborted by SIG"));
    EXPECT_FALSE(state_.paused);
    EXPECT_TRUE(images_.names().empty());
  }
  struct sigaction now{};
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  EXPECT_EQ(dump(), 0) << log();
}

// As nohup(1) does.
TEST_F(Interrupted, AnIgnoredSignalDoesNotEndTheDump) {
  signal(SIGHUP, SIG_IGN);
  testing_support::during_copies = [criu = getpid()] { syscall(SYS_kill, criu, SIGHUP); };
  EXPECT_EQ(dump(), 0) << log();
  testing_support::during_copies = {};
  struct sigaction now{};
  sigaction(SIGHUP, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_IGN);
  signal(SIGHUP, SIG_DFL);
}

// Such a signal ends CRIU, as it does without the plugin.
TEST_F(Interrupted, ASignalBetweenTwoHooksLeavesNoImages) {
  const pid_t criu = fork();
  if (criu == 0) {
    rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    state_.pid = getpid();
    if (start(kStageDump) != 0 || dump_hooks() != 0 || images_.names().empty()) _exit(1);
    raise(SIGTERM);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(criu, &status, 0), criu);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(images_.names(), IsEmpty());
}

TEST_F(Interrupted, ASignalAfterTheDumpedProcessHasEndedLeavesTheImages) {
  images_.write("amdgpu-process-0.img", "image");
  const pid_t process = fork();
  if (process == 0) _exit(0);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, process, &ended, WEXITED | WNOWAIT), 0);
  expect_images_stay(process, [] {});
}

// It frees so much memory that it is still exiting when the signal arrives.
TEST_F(Interrupted, ASignalWhileTheDumpedProcessIsEndingLeavesTheImages) {
  constexpr size_t kMemory = 512u << 20;
  images_.write("amdgpu-process-0.img", "image");
  const auto ready =
      std::move(*Mapping::map(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  const pid_t process = fork();
  if (process == 0) {
    (void)mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
               -1, 0);
    ready.data()[0] = std::byte{1};
    for (;;) ::pause();
  }
  const auto* volatile is_ready = ready.data();
  while (*is_ready == std::byte{0}) usleep(1000);
  expect_images_stay(process, [process] { syscall(SYS_kill, process, SIGKILL); });
}

// CRIU kills the dumped processes, which may take a while, and may fail to report its success.
TEST_F(Interrupted, AProcessThatIsBeingKilledDoesNotContinue) {
  const pid_t process = fork();
  if (process == 0)
    for (;;) ::pause();
  const auto doomed = dump::DoomedImages::create(images_.fd(), {process});
  ASSERT_TRUE(doomed.ok());
  EXPECT_TRUE((*doomed)->all_continue());
  syscall(SYS_kill, process, SIGKILL);
  EXPECT_FALSE((*doomed)->all_continue());
  EXPECT_EQ(waitpid(process, nullptr, 0), process);
}

TEST_F(Interrupted, ADumpThatTakesTooLongFails) {
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  bool first = true;
  testing_support::during_copies = [&] {
    if (std::exchange(first, false)) usleep(1100 * 1000);
  };
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(dump(), -ETIME);
  expect_prompt(start + std::chrono::milliseconds(1100));
  testing_support::during_copies = {};
  EXPECT_THAT(log(), HasSubstr("longer than the 1 s of amdgpu.timeout"));
  EXPECT_FALSE(state_.paused);
  EXPECT_TRUE(images_.names().empty());
  setenv("AMDGPU_CRIU_TIMEOUT", "60", 1);
  EXPECT_EQ(dump(), 0) << log();
  unsetenv("AMDGPU_CRIU_TIMEOUT");
}

TEST_F(Interrupted, ADumpDoesNotWaitForGpuWorkAfterItsDeadline) {
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  state_.busy.tv_sec = 20;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(dump(), -ETIME);
  expect_prompt(start + std::chrono::seconds(1));
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  EXPECT_THAT(log(), HasSubstr("longer than the 1 s of amdgpu.timeout"));
  EXPECT_FALSE(state_.paused);
  state_.busy = {};
  EXPECT_EQ(dump(), 0) << log();
}

// The kernel gives no timer to a user who has none left.
TEST_F(Interrupted, ADumpThatNothingCouldEndInTimeFailsAtOnce) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_SIGPENDING, &before), 0);
  const rlimit none{0, before.rlim_max};
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  state_.busy.tv_sec = 20;
  ASSERT_EQ(setrlimit(RLIMIT_SIGPENDING, &none), 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(dump(), -EAGAIN);
  expect_prompt(start);
  setrlimit(RLIMIT_SIGPENDING, &before);
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  EXPECT_THAT(log(), HasSubstr("cannot make a timer for amdgpu.timeout"));
  EXPECT_FALSE(state_.paused);
  EXPECT_THAT(images_.names(), IsEmpty());
  state_.busy = {};
  EXPECT_EQ(dump(), 0) << log();
}

TEST_F(Interrupted, ASignalEndsAWaitForGpuWork) {
  state_.busy.tv_sec = 20;
  const auto start = std::chrono::steady_clock::now();
  const pthread_t criu = pthread_self();
  std::jthread user([criu] {
    usleep(300 * 1000);
    pthread_kill(criu, SIGTERM);
  });
  EXPECT_EQ(dump(), -EINTR);
  expect_prompt(start + std::chrono::milliseconds(300));
  EXPECT_THAT(log(), HasSubstr("the dump was aborted by SIGTERM"));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Interrupted, ADumpDoesNotWaitForTheDiskAfterItsDeadline) {
  setenv("AMDGPU_CRIU_TIMEOUT", "1", 1);
  {
    const HangingDisk disk;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(dump(), -ETIME);
    expect_prompt(start + std::chrono::seconds(1));
    EXPECT_TRUE(shared_disk().is_waited_for);
    EXPECT_FALSE(state_.paused);
    EXPECT_THAT(images_.names(), IsEmpty());
  }
  unsetenv("AMDGPU_CRIU_TIMEOUT");
  EXPECT_EQ(dump(), 0) << log();
}

TEST_F(Interrupted, ASignalEndsAWaitForTheDisk) {
  const HangingDisk disk;
  EXPECT_EQ(dump_and_signal_at_disk(), -EINTR);
  EXPECT_THAT(log(), HasSubstr("the dump was aborted by SIGTERM"));
  EXPECT_FALSE(state_.paused);
}

TEST_F(Interrupted, ASignalEndsAWaitForTheDiskForMetadata) {
  for (kernel::Bo& bo : state_.bos) bo.flags = 0;  // nothing else is written
  const HangingDisk disk;
  EXPECT_EQ(dump_and_signal_at_disk(), -EINTR);
  EXPECT_FALSE(state_.paused);
}

// Tasks are announced as restored then, but must not run without that memory.
TEST_F(Interrupted, ARestoreDoesNotWaitForLateMemoryAfterItsDeadlineOrASignal) {
  // The parts before the wait need less.
  const std::chrono::milliseconds timeout = testing_support::patient(std::chrono::seconds(1));
  for (const int number : {0, SIGTERM}) {
    ASSERT_EQ(dump(), 0) << log();
    const std::string seconds = std::to_string(timeout / std::chrono::seconds(1));
    if (number == 0) setenv("AMDGPU_CRIU_TIMEOUT", seconds.c_str(), 1);
    ASSERT_EQ(start(kStageRestore), 0) << log();
    unsetenv("AMDGPU_CRIU_TIMEOUT");
    const Fd render(restore_file(testing_support::kRenderId));
    const Fd kfd(restore_file(testing_support::kKfdId));
    ASSERT_TRUE(kfd.valid()) << log();
    images_.write("lazy-pages.socket", "");
    const auto begin = std::chrono::steady_clock::now();
    {
      const LateMemory memory(8 * timeout);
      if (!memory.is_late()) GTEST_SKIP() << "this machine does not let the kernel wait for pages";
      const std::jthread user([number, criu = pthread_self()] {
        usleep(300 * 1000);
        if (number != 0) pthread_kill(criu, number);
      });
      EXPECT_EQ(resume(getpid()), number == 0 ? -ETIME : -EINTR) << log();
      expect_prompt(begin + (number == 0 ? timeout : std::chrono::milliseconds(300)));
    }
    EXPECT_EQ(state_.resumed, 0) << "of the GPU's work";
    end(kStageRestore, -1);
    std::filesystem::remove("lazy-pages.socket");
  }
}

// A profiler or a debugger may interrupt it.
TEST_F(Interrupted, ASignalOfOthersDoesNotEndAWaitForGpuWork) {
  state_.busy.tv_nsec = 400 * 1000 * 1000;
  struct sigaction action{}, before{};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, &before);
  const pthread_t criu = pthread_self();
  std::jthread other([criu] {
    usleep(100 * 1000);
    pthread_kill(criu, SIGUSR1);
  });
  EXPECT_EQ(dump(), 0) << log();
  other.join();
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace amdgpu_criu::criu

// Replaces that of libc.
extern "C" int fdatasync(int file) {
  amdgpu_criu::criu::HangingDisk::wait();
  return static_cast<int>(syscall(SYS_fdatasync, file));
}
