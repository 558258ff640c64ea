// SPDX-License-Identifier: GPL-2.0
#include "base/background.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/bounded_work.h"
#include "base/ending_process.h"
#include "base/pipe.h"
#include "restore/orphans.h"
#include "tests/refused_call.h"

namespace amdgpu_criu {
namespace {

using testing::HasSubstr;

const Background::Role kRole = {"fills GPU memory"};

bool is_there(pid_t pid) { return syscall(SYS_kill, pid, 0) == 0; }

TEST(Background, ReportsTheEndOfItsWork) {
  const Mapping shared =
      std::move(*Mapping::map(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
  volatile auto* done = reinterpret_cast<volatile int*>(shared.data());
  auto background = Background::start(kRole, [&](const Background::Fail&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    *done = 1;
  });
  ASSERT_TRUE(background.ok()) << background.error().message();
  EXPECT_TRUE((*background)->finish().ok());
  EXPECT_EQ(*done, 1);
  EXPECT_TRUE((*background)->finish().ok());
  EXPECT_FALSE(has_ended((*background)->process()));
  (*background)->release();
  EXPECT_TRUE(has_ended((*background)->process()));
}

// As filters of container engines may do.
TEST(Background, ReportsWhyItsProcessCannotBeWatched) {
  const bool refused = testing_support::without({SYS_pidfd_open, 0, EPERM}, [] {
    const auto background = Background::start(kRole, [](const Background::Fail&) {});
    ASSERT_FALSE(background.ok());
    EXPECT_EQ(background.error().code(), EPERM) << background.error().message();
  });
  EXPECT_TRUE(refused);
}

// Nothing would end it, after an operation that has failed.
TEST(Background, DoesNotWorkIfItCannotBeWatched) {
  Pipe pipe = std::move(*Pipe::create());
  const auto self = static_cast<uint32_t>(getpid());
  const bool refused = testing_support::without({SYS_pidfd_open, 0, EMFILE, {}, self}, [&] {
    const auto background = Background::start(
        kRole, [&](const Background::Fail&) { (void)!write(pipe.write.get(), "x", 1); });
    ASSERT_FALSE(background.ok());
    EXPECT_EQ(background.error().code(), EMFILE) << background.error().message();
  });
  EXPECT_TRUE(refused);
  pipe.write.reset();
  char byte = 0;
  EXPECT_EQ(read(pipe.read.get(), &byte, 1), 0);
}

// Also if it ends before start() has returned.
TEST(Background, AnErrorEndsItAtOnceAndIsKept) {
  for (int i = 0; i < 50; i++) {
    auto background = Background::start(
        kRole, [](const Background::Fail& fail) { fail(Error(ENOSPC, "no room")); });
    ASSERT_TRUE(background.ok()) << background.error().message();
    for (int call = 0; call < 2; call++) {
      const auto status = (*background)->finish();
      EXPECT_EQ(status.error().code(), ENOSPC);
      EXPECT_THAT(status.error().message(), HasSubstr("in the background: no room"));
    }
  }
}

// Its end may take long: a disk may not answer.
TEST(BoundedWork, ReleasesWhatItHasIfCriuDies) {
  Pipe pipe = std::move(*Pipe::create());
  const pid_t criu = fork();
  if (criu == 0) {
    const Interruption none(std::chrono::seconds(0));
    BoundedWork work(none, "writes");
    const auto started = work.start([](const Background::Fail&) { pause(); },
                                    [&] { (void)!write(pipe.write.get(), "x", 1); });
    if (started.ok()) syscall(SYS_kill, getpid(), SIGKILL);
    _exit(1);
  }
  pipe.write.reset();
  char byte = 0;
  EXPECT_EQ(read(pipe.read.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  waitpid(criu, nullptr, 0);
}

// The result of `body` in a process that has blocked the signals, as CRIU in a restore.
int result_with_blocked_signals(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, nullptr);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int count_anew(int before, int after) {
  Interruption first(std::chrono::seconds(1));
  first.begin();
  raise(before);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  if (first.check().ok() || first.check_deadline().ok()) return 1;
  const Interruption later = first.anew();
  if (!later.check().ok()) return 2;
  raise(after);
  return later.check().ok() ? 3 : 0;
}

TEST(Interruption, CountsAnewWhatComesLater) {
  EXPECT_EQ(result_with_blocked_signals([] { return count_anew(SIGINT, SIGTERM); }), 0);
  EXPECT_EQ(result_with_blocked_signals([] { return count_anew(SIGTERM, SIGINT); }), 0);
}

// The kernel keeps a blocked one pending.
TEST(Interruption, DoesNotCountIgnoredSignals) {
  const auto ignore = [] {
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    if (!Interruption::check_signals("restore").ok()) return 1;
    if (!Interruption::check_signals_of(getpid(), "restore").ok()) return 2;
    raise(SIGINT);
    if (Interruption::check_signals("restore").ok()) return 3;
    return Interruption::check_signals_of(getpid(), "restore").ok() ? 4 : 0;
  };
  EXPECT_EQ(result_with_blocked_signals(ignore), 0);
}

// CRIU takes the end of any child for that of a task: it ends, and leaves the network locked.
TEST(Background, ItsDeathIsNotThatOfAChild) {
  static std::atomic<int> signals;
  signals = 0;
  struct sigaction action{}, before{};
  action.sa_handler = [](int) { signals++; };
  sigaction(SIGCHLD, &action, &before);
  auto background = Background::start(kRole, [](const Background::Fail&) { pause(); });
  ASSERT_TRUE(background.ok());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  (*background)->process().signal(SIGKILL);
  EXPECT_THAT((*background)->finish().error().message(), HasSubstr("has died"));
  background->reset();
  EXPECT_EQ(signals, 0);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST(Background, EndsAfterAnError) {
  auto background =
      Background::start(kRole, [](const Background::Fail& fail) { fail(Error(EIO, "no data")); });
  ASSERT_TRUE(background.ok());
  pollfd ended{(*background)->process().fd().get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 20'000), 1);
  EXPECT_EQ((*background)->finish().error().code(), EIO);
}

TEST(Background, IsNotFinishedWhileItWorks) {
  auto background = Background::start(kRole, [](const Background::Fail&) { pause(); });
  ASSERT_TRUE(background.ok());
  EXPECT_FALSE((*background)->is_finished(std::chrono::milliseconds(10)));
}

TEST(Background, AnExceptionIsAnError) {
  auto background = Background::start(
      kRole, [](const Background::Fail&) { throw std::runtime_error("no memory"); });
  ASSERT_TRUE(background.ok());
  EXPECT_THAT((*background)->finish().error().message(), HasSubstr("no memory"));
}

TEST(Background, AnExceptionOfTheWatchDoesNotEndIt) {
  struct Failing : Background::Watch {
    void look() override { throw std::runtime_error("no memory"); }
    void main_died() override {}
  };
  const Background::Role role = {"fills GPU memory",
                                 [](pid_t) { return std::make_unique<Failing>(); }};
  auto background = Background::start(role, [](const Background::Fail&) { usleep(300 * 1000); });
  ASSERT_TRUE(background.ok());
  EXPECT_TRUE((*background)->finish().ok());
}

TEST(Background, ItsDeathIsAnError) {
  auto background = Background::start(kRole, [](const Background::Fail&) { raise(SIGKILL); });
  ASSERT_TRUE(background.ok());
  EXPECT_THAT((*background)->finish().error().message(), HasSubstr("has died"));
}

TEST(Background, EndsWithItsOwner) {
  auto background = Background::start(kRole, [](const Background::Fail&) { pause(); });
  ASSERT_TRUE(background.ok());
  const Fd process = std::move(*(*background)->process().fd().duplicate());
  background->reset();
  pollfd ended{process.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 1);
}

// A main process that has a task with a child, and is killed.
TEST(Background, KillsTheTasksOfAMainProcessThatDies) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Fd read_end(ends[0]), write_end(ends[1]);
  const pid_t main = fork();
  if (main == 0) {
    const Background::Role role = {"fills GPU memory", [](pid_t main) {
                                     return std::make_unique<restore::Orphans>(main, nullptr);
                                   }};
    auto background = Background::start(role, [](const Background::Fail&) {});
    if (fork() == 0) {
      pid_t tasks[] = {getpid(), fork()};
      if (tasks[1] != 0) (void)!write(write_end.get(), tasks, sizeof(tasks));
      while (true) pause();
    }
    while (true) pause();
  }
  pid_t tasks[2];
  ASSERT_EQ(read(read_end.get(), tasks, sizeof(tasks)), static_cast<ssize_t>(sizeof(tasks)));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(is_there(tasks[0]) && is_there(tasks[1]));
  syscall(SYS_kill, main, SIGKILL);
  for (int left = 4; left > 0; left--) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    ASSERT_GT(pid, 0);
    if (pid == tasks[0] || pid == tasks[1]) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace amdgpu_criu
