// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu snapshot create` with a criu that asks for the verdict (--tcp established) or stops
// the server (--tcp close), and then does what a test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "host/host.h"
#include "image/set.h"
#include "snapshot/manifest.h"
#include "snapshot/program.h"
#include "tests/temp_dir.h"
#include "tool/traced.h"

namespace amdgpu_criu::snapshot {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing_support::TempDir;

constexpr char kAskingCriu[] = R"(#!/bin/sh
[ "$1" != --version ] || {{ echo Version: 4.2; exit; }}
cd {}
while [ "$1" != --action-script ]; do [ "$1" != -t ] || server=$2; shift; done
if CRTOOLS_SCRIPT_ACTION=post-dump "$2"; then
  {}
else
  {}
fi
)";

constexpr char kStoppingCriu[] = R"(#!/bin/sh
[ "$1" != --version ] || {{ echo Version: 4.2; exit; }}
cd {}
while [ "$1" != --leave-stopped ]; do [ "$1" != -t ] || server=$2; shift; done
kill -STOP "$server"
{}
)";

class Creation : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "criu needs root";
  }
  ~Creation() override {
    kill(server_.pid(), SIGKILL);
    waitpid(server_.pid(), nullptr, 0);
  }

  // The exit status. yes, no: what criu does after that verdict.
  int create_with(const std::string& yes, const std::string& no) {
    return create(formatted(kAskingCriu, dir_.path(), yes, no), "established");
  }
  // then: what criu does after it has stopped the server
  int create_stopped(const std::string& then) {
    return create(formatted(kStoppingCriu, dir_.path(), then), "close");
  }
  int create(const std::string& criu, const std::string& tcp) {
    dir_.write("criu", criu);
    chmod(dir_.file("criu").c_str(), 0700);
    Program tool{{TOOL_PATH, "snapshot", "create", dir_.file("snapshot"), "--pid",
                  formatted("{}", server_.pid()), "--tcp", tcp, "--before", before_, "--after",
                  after_, "--criu", dir_.file("criu")},
                 variables_};
    if (!libdir_.empty()) tool.arguments.insert(tool.arguments.end(), {"--libdir", libdir_});
    const Fd log = *Fd::open(dir_.file("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int status = *Child::start(tool, [&]() -> Status {
                          dup2(log.get(), STDERR_FILENO);
                          return {};
                        })->wait();
    fputs(dir_.read("log").c_str(), stderr);
    return status;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.file("snapshot")))
      result.push_back(entry.path().filename());
    return result;
  }
  // Two processes that share a BO; the second one has another, too.
  void write_images(uint64_t shared, uint64_t own) const {
    const image::DumpId id = image::new_dump_id();
    for (uint32_t index = 0; index < 2; index++) {
      image::Process process;
      process.dump_id = id;
      process.index = index;
      process.pid = 40 + index;
      process.comm = "server";
      process.blob.emplace();
      process.devices = {{0x11, 0x11, true, {}}};
      process.devices[0].gpu.gpu_id = 0x11;
      kernel::Bo bo{};
      bo.gpu_id = 0x11;
      bo.domain = AMDGPU_CRIU_DOMAIN_VRAM;
      for (uint64_t object = 1; object <= index + 1; object++) {
        bo.object_id = object;
        bo.size = object == 1 ? shared : own;
        process.bos.push_back(bo);
      }
      ASSERT_TRUE(image::write_metadata_file(dir_.fd(), image::process_file_name(index),
                                             image::Kind::kProcess, image::encode(process))
                      .ok());
    }
  }
  bool server_runs() const {
    return !host::has_ended(server_.pid()) && !tool::is_stopped(server_.pid());
  }

  const TempDir dir_;
  Child server_ = *Child::start(Program::shell("exec sleep 600 >/dev/null 2>&1"));
  std::string before_ = "true", after_ = "true";
  std::string libdir_ = std::filesystem::path(PLUGIN_PATH).parent_path();
  Variables variables_;
};

// After a "no", criu gives the connections back.
TEST_F(Creation, IsNotInterruptedAfterItsServerWasSaved) {
  after_ = "kill -TERM $PPID";
  EXPECT_EQ(create_with("kill -KILL $server", "kill -INT $$; sleep 1; : >given_back; exit 1"), 1);
  EXPECT_TRUE(server_runs());
  EXPECT_THAT(dir_.names(), Contains("given_back"));
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(Creation, KeepsASnapshotWhoseServerHasEnded) {
  EXPECT_EQ(create_with("kill -KILL $server; kill -KILL $$", ":"), 0);
  EXPECT_FALSE(server_runs());
  EXPECT_THAT(names(), IsSupersetOf({"manifest.json", "images"}));
}

TEST_F(Creation, CountsVramOnceThatProcessesShare) {
  write_images(5 << 20, 2 << 20);
  after_ = formatted("cp {}/*.img {}/images", dir_.path(), dir_.file("snapshot"));
  ASSERT_EQ(create_with("kill -KILL $server", ":"), 0);
  const auto manifest = read_manifest(dir_.file("snapshot"));
  ASSERT_TRUE(manifest.ok()) << manifest.error().message();
  EXPECT_EQ(manifest->vram, 7u << 20);
}

TEST_F(Creation, RemovesASnapshotWhoseServerCriuHasNotEnded) {
  EXPECT_EQ(create_with("exit 1", ":"), 1);
  EXPECT_TRUE(server_runs());
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(Creation, ContinuesItsServerAfterAnySignal) {
  for (const char* signal : {"INT", "TERM", "HUP", "QUIT"}) {
    EXPECT_EQ(create_stopped(formatted("kill -{} $PPID; exit 0", signal)), 1) << signal;
    EXPECT_TRUE(server_runs()) << signal;
    EXPECT_THAT(names(), ElementsAre()) << signal;
  }
}

// std::filesystem throws an exception for a link to itself.
TEST_F(Creation, ContinuesItsServerAfterAnException) {
  EXPECT_EQ(create_stopped("ln -s loop snapshot/images/loop"), 1);
  EXPECT_TRUE(server_runs());
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(Creation, LetsCriuGiveConnectionsBackAfterAnException) {
  after_ = "ln -s loop \"$SNAPSHOT_DIRECTORY/images/loop\"";
  EXPECT_EQ(create_with("kill -KILL $server", "sleep 0.5; : >given_back; exit 1"), 1);
  EXPECT_TRUE(server_runs());
  EXPECT_THAT(dir_.names(), Contains("given_back"));
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(Creation, WaitsForCriuWhateverItsPluginReports) {
  const std::string line = "echo '{\"phase\": 5}' >/proc/$$/fd/$AMDGPU_CRIU_STATUS_FD";
  EXPECT_EQ(create_stopped(line + "; sleep 0.5"), 0);
  EXPECT_TRUE(host::has_ended(server_.pid()));
  EXPECT_THAT(names(), IsSupersetOf({"manifest.json", "images"}));
}

TEST_F(Creation, RunsTheHookToItsEndAfterAnInterruptedDump) {
  after_ = formatted("sleep 0.5; grep State: /proc/$SNAPSHOT_PID/status >{}/after", dir_.path());
  EXPECT_EQ(create_stopped("kill -INT $PPID; sleep 5; exit 1"), 1);
  EXPECT_TRUE(server_runs());
  EXPECT_THAT(dir_.read("after"), HasSubstr("sleeping"));
}

TEST_F(Creation, RunsTheHookToItsEndAfterASignalDuringTheDump) {
  after_ = formatted("sleep 0.5; : >{}/after", dir_.path());
  EXPECT_EQ(create_stopped("kill -INT $PPID; exit 0"), 1);
  EXPECT_THAT(dir_.names(), Contains("after"));
}

TEST_F(Creation, EndsTheHookAfterAnotherSignal) {
  after_ = "kill -INT $PPID; exec sleep 60";
  const auto start = Clock::now();
  EXPECT_EQ(create_stopped("kill -INT $PPID; sleep 5; exit 1"), 1);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(50));
  EXPECT_TRUE(server_runs());
}

TEST_F(Creation, ReportsThatTheHookAfterAFailedDumpFailed) {
  after_ = "exit 3";
  EXPECT_EQ(create_stopped("exit 1"), 1);
  EXPECT_THAT(dir_.read("log"), HasSubstr("/bin/sh -c 'exit 3' ended with status 3"));
  EXPECT_THAT(dir_.read("log"), HasSubstr("criu dump ended with status 1"));
}

// The hook before the dump may have stopped requests, and failed after that.
TEST_F(Creation, RunsTheHookAfterOneThatFailedBeforeTheDump) {
  after_ = formatted("echo $SNAPSHOT_RESULT >{}/after", dir_.path());
  for (const char* before : {"exit 3", "kill -INT $PPID; sleep 5"}) {
    before_ = before;
    EXPECT_EQ(create_stopped(formatted(": >{}/dumped", dir_.path())), 1);
    EXPECT_EQ(dir_.read("after"), "failed\n");
    EXPECT_THAT(dir_.names(), testing::Not(Contains("dumped")));
    EXPECT_TRUE(server_runs());
    EXPECT_THAT(names(), ElementsAre());
    std::filesystem::remove(dir_.file("after"));
  }
}

// criu changes its directory.
TEST_F(Creation, GivesCriuAbsolutePaths) {
  const std::string directory = std::filesystem::relative(libdir_);
  const std::string absolute = std::filesystem::current_path() / directory;
  libdir_ = directory;
  EXPECT_EQ(create_stopped("exit 1"), 1);
  EXPECT_THAT(dir_.read("log"), HasSubstr("-L " + absolute));
  libdir_.clear();
  variables_ = {{"CRIU_LIBS_DIR", directory}};
  EXPECT_EQ(create_stopped("exit 1"), 1);
  EXPECT_THAT(dir_.read("log"), HasSubstr("-L " + absolute));
}

}  // namespace
}  // namespace amdgpu_criu::snapshot
