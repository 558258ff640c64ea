// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot restore` with a criu that starts a program as replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "host/host.h"
#include "snapshot/manifest.h"
#include "snapshot/program.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::snapshot {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

// Each replica runs until it is killed.
constexpr char kCriu[] = R"(#!/bin/sh
[ "$1" != --version ] || { echo Version: 4.2; exit; }
ulimit -Sn >"$DIRECTORY/limit"
while [ "$1" != --pidfile ]; do shift; done
setsid sleep 600 >/dev/null 2>&1 &
echo $! >"$2"
echo $! >>"$DIRECTORY/pids"
)";

class Restored : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "criu needs root";
    dir_.write("criu", kCriu);
    chmod(dir_.file("criu").c_str(), 0700);
    Manifest manifest;
    manifest.tcp = "close";
    manifest.server.own_pid_namespace = true;
    std::filesystem::create_directories(dir_.file("snapshot/images"));
    ASSERT_TRUE(write_manifest(dir_.file("snapshot"), manifest).ok());
  }
  void TearDown() override {
    for (const pid_t pid : pids()) kill(pid, SIGKILL);
  }

  // The exit status.
  int restore(unsigned replicas, const std::string& hook, const rlimit& files) {
    const Program tool{{TOOL_PATH, "snapshot", "restore", dir_.file("snapshot"), "--replicas",
                        formatted("{}", replicas), "--network", "host", "--state-dir",
                        dir_.file("state"), "--restored", hook, "--criu", dir_.file("criu"),
                        "--libdir", std::filesystem::path(PLUGIN_PATH).parent_path()},
                       {{"DIRECTORY", dir_.path()}}};
    const Fd log = *Fd::open(dir_.file("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return *Child::start(tool, [&]() -> Status {
              dup2(log.get(), STDERR_FILENO);
              return setrlimit(RLIMIT_NOFILE, &files) == 0 ? Status() : Error::system("a limit");
            })->wait();
  }
  int restore(unsigned replicas, const std::string& hook) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    return restore(replicas, hook, files);
  }
  std::vector<pid_t> pids() const {
    std::ifstream file(dir_.file("pids"));
    return {std::istream_iterator<pid_t>(file), {}};
  }
  std::string log() const { return dir_.read("log"); }

  const TempDir dir_;
};

TEST_F(Restored, RunsOn) {
  ASSERT_EQ(restore(1, "true"), 0) << log();
  ASSERT_EQ(pids().size(), 1u);
  EXPECT_FALSE(host::has_ended(pids()[0]));
}

TEST_F(Restored, IsEndedIfItsHookFails) {
  ASSERT_EQ(restore(1, "exit 3"), 1);
  EXPECT_THAT(log(), HasSubstr("ended with status 3"));
  EXPECT_TRUE(host::has_ended(pids().at(0)));
}

// The replica ends in its hook, and another process tries to get its number.
TEST_F(Restored, KillsNoProcessThatHasTheNumberOfAReplica) {
  const std::string hook = formatted(
      "kill -KILL $SNAPSHOT_PID; sleep 0.3; echo $((SNAPSHOT_PID - 1)) "
      ">/proc/sys/kernel/ns_last_pid; "
      "setsid sleep 60 >/dev/null 2>&1 & echo $! >>{}/pids; exit 3",
      dir_.path());
  ASSERT_EQ(restore(1, hook), 1);
  ASSERT_EQ(pids().size(), 2u) << log();
  EXPECT_FALSE(host::has_ended(pids()[1]));
}

TEST_F(Restored, MayHaveMoreOpenFilesThanTheSoftLimit) {
  ASSERT_EQ(restore(30, "true", {64, 316}), 0) << log();
  EXPECT_EQ(pids().size(), 30u);
  EXPECT_EQ(dir_.read("limit"), "64\n") << "programs have the limit of before";
}

TEST_F(Restored, NamesTheLimitThatIsTooLowForAllReplicas) {
  ASSERT_EQ(restore(30, "true", {64, 64}), 1);
  EXPECT_THAT(log(), HasSubstr("open files are needed, and this command may have 64: raise"));
  EXPECT_TRUE(pids().empty());
}

}  // namespace
}  // namespace amdgpu_criu::snapshot
