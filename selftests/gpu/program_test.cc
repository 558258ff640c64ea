// SPDX-License-Identifier: GPL-2.0
// The softgpu command as a user starts it. SOFTGPU is its path.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using testing::HasSubstr;

class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    output_ = testing::TempDir() + "softgpu-out-" + std::to_string(getpid());
    arguments.insert(arguments.begin(), SOFTGPU);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int fd = open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(fd, 1);
      dup2(fd, 2);
      execv(SOFTGPU, argv.data());
      _exit(127);
    }
  }
  ~Program() {
    kill();
    std::filesystem::remove(output_);
  }

  void signal(int number) const { ::kill(pid_, number); }
  // The exit status, or -1 if it does not end within 20 s or was killed.
  int wait() {
    for (int i = 0; i < 2000; ++i) {
      int status;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      usleep(10000);
    }
    return -1;
  }
  std::string output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string output_;
  pid_t pid_ = -1;
};

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string name = testing::TempDir() + "softgpuXXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~ProgramTest() override { std::filesystem::remove_all(dir_); }

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  // Connects as a virtual machine does, as soon as the server listens.
  amdgpu_criu::Fd connect(const std::string& to) const {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    to.copy(address.sun_path, to.size());
    for (int i = 0; i < 1000; ++i) {
      amdgpu_criu::Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
      if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
        return fd;
      usleep(10000);
    }
    ADD_FAILURE() << "no server listens at " << to;
    return {};
  }
  std::string dir_;
};

TEST_F(ProgramTest, HelpAndVersionExitWithZero) {
  Program help({"--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.output(), HasSubstr("--shared-dir"));
  Program version({"--version"});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_THAT(version.output(), HasSubstr("softgpu 1.0"));
}

TEST_F(ProgramTest, WrongUsageExitsWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--socket"},
      {"--unknown"},
      {"--socket", path("s"), "--vram", "many"},
      {"--socket", path("s"), "--vram", "18446744073709551615"},
      {"--socket", path("s"), "--shared-dir", path("none")},
      {"--socket", path("s"), "--delays", "some"},
      {"--socket", path("s"), "--write-firmware", dir_}};
  for (const auto& arguments : wrong) {
    Program program(arguments);
    EXPECT_EQ(program.wait(), 2) << testing::PrintToString(arguments);
    EXPECT_FALSE(program.output().empty());
  }
}

TEST_F(ProgramTest, FailureToServeExitsWithOne) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--socket", path("s"), "--vram", "300"}, "power of two"},
      {{"--socket", path("s"), "--nodes", "2"}, "common directory"},
      {{"--socket", path("s"), "--shared-dir", dir_, "--node", "2", "--nodes", "2"}, "node 2 of 2"},
      {{"--socket", path("none/s")}, "none/s"},
      {{"--socket", path("s"), "--trace", path("none/t")}, "none/t"}};
  for (const auto& [arguments, words] : wrong) {
    Program program(arguments);
    EXPECT_EQ(program.wait(), 1) << testing::PrintToString(arguments);
    EXPECT_THAT(program.output(), HasSubstr(words));
  }
}

TEST_F(ProgramTest, WritesFirmware) {
  Program program({"--write-firmware", dir_});
  EXPECT_EQ(program.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(path("aldebaran_mec.bin")));
}

TEST_F(ProgramTest, ASignalEndsItCleanly) {
  for (const int number : {SIGTERM, SIGINT}) {
    Program program({"--socket", path("s"), "--vram", "256", "--report", path("report")});
    const amdgpu_criu::Fd client = connect(path("s"));
    program.signal(number);
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_FALSE(std::filesystem::exists(path("s")));
    EXPECT_GT(std::filesystem::file_size(path("report")), 0u);
    std::filesystem::remove(path("report"));
  }
}

TEST_F(ProgramTest, ItEndsWhenTheClientCloses) {
  Program program({"--socket", path("s"), "--vram", "256"});
  connect(path("s")).reset();
  EXPECT_EQ(program.wait(), 0) << program.output();
}

TEST_F(ProgramTest, TheSeedOfDelaysIsLogged) {
  for (const std::string seed : {"7", "random"}) {
    Program program({"--socket", path("s"), "--vram", "256", "--delays", seed});
    connect(path("s")).reset();
    EXPECT_EQ(program.wait(), 0) << program.output();
    EXPECT_THAT(program.output(),
                testing::ContainsRegex(seed == "7" ? "--delays 7" : "--delays [0-9]"));
  }
}

TEST_F(ProgramTest, AMalformedMessageIsReported) {
  Program program({"--socket", path("s"), "--vram", "256"});
  const amdgpu_criu::Fd client = connect(path("s"));
  const std::string nonsense = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(write(client.get(), nonsense.data(), nonsense.size()),
            static_cast<ssize_t>(nonsense.size()));
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.output(), HasSubstr("message of"));
}

}  // namespace
}  // namespace gpu
