// SPDX-License-Identifier: GPL-2.0
#include "snapshot/server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

#include "base/pipe.h"
#include "host/host.h"
#include "tests/refused_call.h"
#include "tool/traced.h"

namespace amdgpu_criu::snapshot {
namespace {

char state_of(pid_t pid) {
  std::ifstream file(formatted("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end = text.rfind(')');
  return end == text.npos ? '?' : text.at(end + 2);
}

// CRIU stops the whole tree that it finds.
TEST(Server, ContinuesWithWorkersThatWereForkedAfterItWasExamined) {
  const Pipe started = std::move(*Pipe::create());
  const pid_t server = fork();
  if (server == 0) {
    signal(SIGTERM, [](int) {});
    if (write(started.write.get(), "", 1) != 1) _exit(1);
    pause();
    if (fork() == 0 && write(started.write.get(), "", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(started.read.get(), &byte, 1), 1);
  ASSERT_EQ(examine_server(server)->pids.size(), 1u);
  while (tool::tree_of(server)->size() < 2) kill(server, SIGTERM), usleep(10'000);
  ASSERT_EQ(read(started.read.get(), &byte, 1), 1);
  const std::vector<pid_t> pids = *tool::tree_of(server);
  for (const pid_t pid : pids) kill(pid, SIGSTOP);
  for (const pid_t pid : pids)
    while (state_of(pid) != 'T') usleep(1'000);
  continue_tree(*open_all({server}));
  for (const pid_t pid : pids) EXPECT_NE(state_of(pid), 'T') << pid;
  kill_tree(*open_all({server}));
  waitpid(server, nullptr, 0);
  for (const pid_t pid : pids) EXPECT_TRUE(host::has_ended(pid)) << pid;
}

TEST(Server, ContinuesAWorkerWhoseParentHasEnded) {
  const Pipe started = std::move(*Pipe::create());
  const pid_t server = fork();
  if (server == 0) {
    const pid_t worker = fork();
    if (worker == 0) raise(SIGSTOP);
    if (worker > 0 && write(started.write.get(), &worker, sizeof(worker)) > 0) pause();
    _exit(0);
  }
  pid_t worker = 0;
  ASSERT_EQ(read(started.read.get(), &worker, sizeof(worker)), ssize_t{sizeof(worker)});
  while (state_of(worker) != 'T') usleep(1'000);
  const std::vector<Pidfd> both = *open_all({server, worker});
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  continue_tree(both);
  // It ends when it continues.
  for (int i = 0; i < 1000 && state_of(worker) == 'T'; i++) usleep(1'000);
  EXPECT_NE(state_of(worker), 'T');
}

TEST(Server, IsKilledWithAStoppedWorkerWhoseParentHasEnded) {
  const Pipe started = std::move(*Pipe::create());
  const pid_t server = fork();
  if (server == 0) {
    const pid_t worker = fork();
    if (worker > 0 && write(started.write.get(), &worker, sizeof(worker)) > 0) raise(SIGKILL);
    while (true) raise(SIGSTOP);
  }
  pid_t worker = 0;
  ASSERT_EQ(read(started.read.get(), &worker, sizeof(worker)), ssize_t{sizeof(worker)});
  std::vector<Pidfd> both = *open_all({server, worker});
  waitpid(server, nullptr, 0);
  kill_tree(std::move(both));
  EXPECT_TRUE(host::has_ended(worker));
  kill(worker, SIGKILL);
}

TEST(Server, ThatMayNotBeOpenedHasNotEnded) {
  const bool refused = testing_support::without({SYS_pidfd_open, 0, EPERM}, [] {
    const auto opened = open_all({getpid()});
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code(), EPERM);
    EXPECT_EQ(need_pidfds().error().code(), EPERM);
  });
  ASSERT_TRUE(refused);
  EXPECT_TRUE(need_pidfds().ok());
}

struct Forked {
  std::atomic<unsigned> count;
  pid_t pids[900];
};

// Each process forks the next one.
[[noreturn]] void fork_on(Forked& forked) {
  for (unsigned mine; (mine = forked.count++) < std::size(forked.pids);) {
    forked.pids[mine] = getpid();
    usleep(1'000);
    if (fork() != 0) break;
  }
  while (true) pause();
}

TEST(Server, IsKilledWithProcessesThatAreForkedMeanwhile) {
  const auto memory =
      Mapping::map(sizeof(Forked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  Forked& forked = *new (memory->data()) Forked{};
  const pid_t server = fork();
  if (server == 0) {
    for (int i = 0; i < 8; i++)
      if (fork() == 0) fork_on(forked);
    while (true) pause();
  }
  while (forked.count < 20) usleep(100);
  kill_tree(*open_all({server}));
  waitpid(server, nullptr, 0);
  const size_t count = std::min<size_t>(forked.count, std::size(forked.pids));
  for (size_t i = 0; i < count; i++) EXPECT_TRUE(host::has_ended(forked.pids[i])) << i;
  for (unsigned before = 0; before != forked.count; usleep(50'000)) {
    before = forked.count;
    for (const pid_t pid : forked.pids)
      if (pid > 0) kill(pid, SIGKILL);
  }
}

}  // namespace
}  // namespace amdgpu_criu::snapshot
