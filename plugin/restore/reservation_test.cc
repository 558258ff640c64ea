// SPDX-License-Identifier: GPL-2.0
#include "restore/reservation.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/pipe.h"
#include "host/run_directory.h"
#include "tests/refused_call.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::restore {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kShort{100};

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class Reservations : public testing::Test {
 protected:
  // In another process, because a process does not see its own locks.
  template <typename Body>
  static int in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  }

  bool lets_freeze() const {
    const auto directory = host::open_run_directory(directory_);
    return directory.ok() && host::lock_in(*directory, host::kTurnOfFreezes, kShort, "").ok();
  }

  testing_support::TempDir parent_;
  std::string directory_ = parent_.file("amdgpu-criu");
  std::string turn_ = directory_ + "/turn";
};

TEST_F(Reservations, AreOpenToNobodyElse) {
  ASSERT_TRUE(Reservation::begin(directory_).ok());
  EXPECT_EQ(mode_of(directory_), 0700u);
  EXPECT_EQ(mode_of(turn_), 0600u);
}

// flock(2) needs any open file, for a shared lock as for an exclusive one.
TEST_F(Reservations, AreNotDelayedByAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_TRUE(Reservation::begin(directory_).ok());
  ASSERT_TRUE(lets_freeze());
  ASSERT_EQ(chmod(parent_.path().c_str(), 0755), 0);
  Pipe ready = std::move(*Pipe::create());
  const pid_t user = fork();
  if (user == 0) {
    std::string locked;
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(1);
    for (const char* name : {".", "amdgpu-criu", "amdgpu-criu/turn", "amdgpu-criu/turn-freeze"})
      for (const int how : {LOCK_SH, LOCK_EX})
        if (auto file = Fd::openat(parent_.fd(), name, O_RDONLY); file.ok())
          if (flock(file->release(), how | LOCK_NB) == 0) locked += name;
    if (write(ready.write.get(), locked.data(), locked.size()) > 0) ::pause();
    _exit(0);
  }
  char locked[64];
  const ssize_t size = read(ready.read.get(), locked, sizeof(locked));
  EXPECT_EQ(std::string_view(locked, std::max<ssize_t>(size, 0)), ".");
  EXPECT_TRUE(Reservation::begin(directory_, kShort).ok());
  EXPECT_TRUE(lets_freeze());
  syscall(SYS_kill, user, SIGKILL);  // kill() is not libc's here
  waitpid(user, nullptr, 0);
}

// A lock on a descriptor that an earlier version gave to any user. A freeze may have closed the
// directory before.
TEST_F(Reservations, LeaveTheLockOfAnEarlierVersionToItsHolder) {
  for (const int how : {LOCK_SH, LOCK_EX}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
    ASSERT_TRUE(Fd::open(turn_.c_str(), O_WRONLY | O_CREAT, 0644).ok());
    const Fd of_user = std::move(*Fd::open(turn_.c_str(), O_RDONLY));
    const Fd their_directory = std::move(*Fd::open(directory_.c_str(), O_RDONLY));
    ASSERT_EQ(flock(of_user.get(), how), 0);
    ASSERT_EQ(flock(their_directory.get(), how), 0);
    EXPECT_TRUE(lets_freeze());
    const auto reservation = Reservation::begin(directory_, kShort);
    ASSERT_TRUE(reservation.ok()) << reservation.error().message();
    EXPECT_EQ(mode_of(directory_), 0700u);
    EXPECT_EQ(mode_of(turn_), 0600u);
  }
}

TEST_F(Reservations, AreNotMadeInADirectoryOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  std::filesystem::create_directory(directory_);
  ASSERT_EQ(chown(directory_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(Reservation::begin(directory_).error().message(), HasSubstr("belongs to user 65534"));
  ASSERT_EQ(rename(directory_.c_str(), (directory_ + "-2").c_str()), 0);
  std::filesystem::create_directory_symlink(parent_.path(), directory_);
  EXPECT_FALSE(Reservation::begin(directory_).ok());
}

// The restore that chooses was stopped.
TEST_F(Reservations, DoNotWaitWithoutALimit) {
  const auto first = Reservation::begin(directory_);
  ASSERT_TRUE(first.ok());
  const auto second = Reservation::begin(directory_, kShort);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("another restore does not let this one choose"));
}

TEST_F(Reservations, LetOthersGoOnAfterAFailure) {
  auto first = Reservation::begin(directory_);
  ASSERT_TRUE(first.ok());
  const std::string elsewhere = parent_.file("elsewhere");
  ASSERT_EQ(rename(directory_.c_str(), elsewhere.c_str()), 0);
  EXPECT_FALSE(first->take({{1, 100}}).ok());
  EXPECT_TRUE(Reservation::begin(elsewhere, kShort).ok());
}

TEST_F(Reservations, OfRestoresThatCannotBeExaminedAreKept) {
  auto first = Reservation::begin(directory_);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->take({{1, 100}}).ok());
  EXPECT_EQ(in_child([&] {
              const auto second = Reservation::begin(directory_);
              return second.ok() && testing_support::without({SYS_openat, O_RDWR, EMFILE},
                                                             [&] { (void)second->of_others(); });
            }),
            1);
  EXPECT_EQ(in_child([&] {
              const auto third = Reservation::begin(directory_);
              return third.ok() && third->of_others() == Reservation::Bytes{{1, 100}};
            }),
            1);
}

// A task has its memory while another one of its tree is still being restored.
TEST_F(Reservations, DoNotCountMemoryThatIsAllocated) {
  auto first = Reservation::begin(directory_);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->take({{1, 100}, {2, 50}}).ok());
  const auto left = [&] {
    const auto second = Reservation::begin(directory_);
    return second.ok() ? second->of_others() : Reservation::Bytes();
  };
  const auto is_left = [&](const Reservation::Bytes& expected) {
    return in_child([&] { return left() == expected; });
  };
  EXPECT_TRUE(is_left({{1, 100}, {2, 50}}));
  in_child([&] {
    first->allocated(1, 60);
    return 0;
  });
  EXPECT_TRUE(is_left({{1, 40}, {2, 50}}));
  first->allocated(1, 60);
  first->allocated(3, 60);
  EXPECT_TRUE(is_left({{1, 0}, {2, 50}}));
  {
    const auto ended = std::move(*first);
  }
  EXPECT_TRUE(is_left({}));
}

}  // namespace
}  // namespace amdgpu_criu::restore
