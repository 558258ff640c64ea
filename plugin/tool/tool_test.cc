// SPDX-License-Identifier: GPL-2.0
// Runs the command as a user does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "host/host.h"
#include "host/run_directory.h"
#include "options/options.h"
#include "tests/temp_dir.h"
#include "tests/tool_program.h"
#include "tool/traced.h"

namespace amdgpu_criu::tool {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

TEST_F(Tool, StackIdNeedsAGpu) {
  if (access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU driver";
  const Outcome outcome = run("stack-id");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no driver stack"));
}

TEST_F(Tool, CdiNeedsAGpuAndAKind) {
  for (const char* kind : {"amd.com", "amd.com/", "/gpu", "AMD/gpu", "amd.com/gpu=0"})
    EXPECT_THAT(run(std::string("cdi --kind ") + kind).output, HasSubstr("not VENDOR/CLASS"));
  if (access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU driver";
  const Outcome outcome = run("cdi");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("there is no GPU here"));
}

TEST_F(Tool, WrongUsageAndEmptyDirectoriesAreStatus2) {
  TempDir empty;
  EXPECT_EQ(run("").status, 2);
  EXPECT_EQ(run("show").status, 2);
  EXPECT_EQ(run("frobnicate").status, 2);
  EXPECT_EQ(run("show " + empty.path()).status, 2);
  EXPECT_EQ(run("verify /no/such/directory").status, 2);
  EXPECT_EQ(run("verify --gpu 99 " + dir_.path()).status, 2);
  EXPECT_EQ(run("requirements " + empty.path()).status, 2);
  EXPECT_EQ(run("--help").status, 0);
}

TEST_F(Tool, OutputThatCannotBeWrittenIsAnError) {
  for (const std::string command :
       {"show", "show --json", "verify", "verify --json", "requirements", "snapshot list --json",
        "options", "options --json", "check", "check --json", "--help-all", "--version"}) {
    const bool takes_directory = command.find_first_of("sv") == 0 || command == "requirements";
    const Outcome outcome =
        run(command + (takes_directory ? " " + dir_.path() : "") + " >/dev/full )", "( ");
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.output, HasSubstr("cannot write the output: No space left on device"))
        << command;
  }
}

TEST_F(Tool, AReaderThatHasEndedIsAnErrorUnlessItsSignalEndsTheCommand) {
  const auto write_to_nobody = [](const std::string& before) {
    return run("--version; echo status $? >&2 ) | :", "exec 2>&1; ( sleep 0.5; " + before);
  };
  EXPECT_THAT(write_to_nobody("").output,
              testing::EndsWith(formatted("status {}\n", 128 + SIGPIPE)));
  const Outcome ignored = write_to_nobody("trap '' PIPE; ");
  EXPECT_THAT(ignored.output, HasSubstr("cannot write the output: Broken pipe"));
  EXPECT_THAT(ignored.output, testing::EndsWith("status 2\n"));
}

// A file that the command opens would get the number.
TEST_F(Tool, StandardDescriptorsMayBeClosed) {
  const Outcome outcome = run("show " + dir_.path() + " <&- >&- )", "( ");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("cannot write the output: Bad file descriptor"));
  const std::string flat = dir_.file("flat");
  EXPECT_EQ(run("flatten " + dir_.path() + " " + flat + " <&- 2>&- )", "( ").status, 0);
  EXPECT_EQ(run("verify " + flat).status, 0);
}

TEST_F(Tool, AnEmptyPathIsNoKey) {
  const Outcome outcome = run("verify --key-file \"$NO_SUCH_VARIABLE\" " + dir_.path());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("--key-file: an empty path"));
}

TEST_F(Tool, ProcessZeroIsRefused) {
  for (const char* command : {"check", "freeze", "state", "pre-dump -D .", "snapshot create new"}) {
    const Outcome outcome = run(formatted("{} --pid 0", command));
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.output, HasSubstr("--pid")) << command;
  }
}

TEST_F(Tool, ListOfSnapshotsGoesOnAfterADirectoryThatCannotBeRead) {
  std::filesystem::create_symlink("loop", dir_.file("loop"));
  const Outcome outcome = run("snapshot list --json " + dir_.path());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("cannot look into " + dir_.file("loop")));
  EXPECT_THAT(outcome.output, HasSubstr("\"snapshots\""));
}

TEST_F(Tool, ACommandIsNotSavedAtOnceButWhenItIsReady) {
  const std::string create = "snapshot create " + dir_.file("new");
  const Outcome at_once = run(create + " -- true");
  EXPECT_EQ(at_once.status, 2);
  EXPECT_THAT(at_once.output, HasSubstr("--ready-command, --ready-port and --ready-line"));
  EXPECT_EQ(run(create + " --pid 1 --ready-line text").status, 2);
  EXPECT_EQ(run(create + " --pid 1 --ready-timeout 5").status, 2);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("new")));
}

TEST_F(Tool, CheckPrintsConsequenceAndRemedyWithoutAGpu) {
  if (access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU driver";
  const Outcome outcome = run("check");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("GPU driver: no /dev/kfd"));
  EXPECT_THAT(outcome.output, HasSubstr("remedy: load amdgpu"));
}

TEST_F(Tool, AProcessWithoutAGpuNeedsNothingAndCannotBeFrozenOrSuspended) {
  const pid_t child = fork();
  if (child == 0) pause(), _exit(0);
  const std::string pid = formatted(" --pid {}", child);
  const Outcome outcome = run("check" + pid);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("use no AMD GPU"));
  for (const char* command : {"freeze", "suspend"}) {
    const Outcome refused = run(command + pid);
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.output, HasSubstr("uses no AMD GPU"));
  }
  EXPECT_EQ(run("state" + pid).output, "running\n");
  EXPECT_EQ(run("thaw" + pid).status, 1);
  EXPECT_EQ(run("resume" + pid).status, 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(run("check" + pid).status, 2);
  EXPECT_EQ(run("state" + pid).status, 1);
  EXPECT_EQ(run("thaw").status, 2);
}

// As a freeze that is about to make its socket, forever.
class OtherFreeze {
 public:
  explicit OtherFreeze(const TempDir& directory) {
    setenv("XDG_RUNTIME_DIR", directory.path().c_str(), 1);
    const std::string path =
        geteuid() == 0 ? host::Config().run_directory : directory.path() + "/amdgpu-criu";
    turn_ = std::move(*host::lock_in(*host::open_run_directory(path), host::kTurnOfFreezes,
                                     std::chrono::seconds(5), "another test does not end"));
  }

 private:
  Fd turn_;
};

TEST_F(Tool, AFreezeDoesNotWaitForAnotherOneWithoutALimit) {
  const OtherFreeze other(dir_);
  const Outcome outcome = run(formatted("freeze --pid {}", getpid()), "timeout 30 ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("another amdgpu-criu freeze does not end"));
}

// Descendants of this process, parents first.
std::vector<pid_t> running_tools() {
  std::vector<pid_t> tools = *tree_of(getpid());
  std::erase_if(tools, [](pid_t pid) { return host::comm_of(pid) != "amdgpu-criu"; });
  return tools;
}

TEST_F(Tool, AFreezeWhoseHolderDiesFails) {
  const OtherFreeze other(dir_);
  const std::jthread killer([] {
    std::vector<pid_t> tools;
    while ((tools = running_tools()).size() < 2) usleep(1000);
    kill(tools.back(), SIGKILL);
  });
  const Outcome outcome = run(formatted("freeze --pid {}", getpid()));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("the process that was to hold the pause has died"));
}

// Its caller may have the lock of flock(1), whose next user would wait for the end of the pause.
TEST_F(Tool, TheHolderOfAFreezeClosesWhatItsCallerHadOpen) {
  const OtherFreeze other(dir_);
  bool closed = false;
  std::jthread observer([&] {
    std::vector<pid_t> tools;
    while ((tools = running_tools()).size() < 2) usleep(1000);
    const std::string inherited = formatted("/proc/{}/fd/9", tools.back());
    for (int i = 0; i < 2000 && !closed; i++) {
      usleep(1000);
      std::error_code error;
      closed = !std::filesystem::is_symlink(inherited, error);
    }
    closed &= !host::has_ended(tools.back());
    kill(tools.back(), SIGKILL);
  });
  const Outcome outcome = run(formatted("freeze --pid {} 9>{}", getpid(), dir_.file("lock")));
  observer.join();
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_TRUE(closed);
}

TEST_F(Tool, BenchReportsThatThereIsNoGpu) {
  if (access("/dev/kfd", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU driver";
  const Outcome outcome = run("bench --size 1 --directory " + dir_.path());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("no GPU here"));
  EXPECT_EQ(run("bench --rounds 0").status, 2);
}

TEST_F(Tool, CheckUsesTheGivenDirectories) {
  const std::string arguments = "check --libdir " + dir_.path() + " --directory " + dir_.path();
  EXPECT_THAT(run(arguments).output, HasSubstr("no amdgpu_criu_plugin.so in " + dir_.path()));
  const Outcome json = run(arguments + " --json");
  EXPECT_THAT(json.output, HasSubstr("\"what\": \"image directory " + dir_.path() + "\""));
  EXPECT_THAT(json.output, HasSubstr("\"status\": \"bad\""));
}

// Bash's completion of "amdgpu-criu WORDS".
std::string complete(const std::string& words) {
  const std::string script = formatted(
      "source {} && COMP_WORDS=({} {}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && "
      "_amdgpu_criu 2>/dev/null; echo ${{COMPREPLY[*]}}",
      COMPLETION_PATH, TOOL_PATH, words);
  FILE* pipe = popen(("bash -c '" + script + "'").c_str(), "r");
  char buffer[4096];
  std::string output(buffer, fread(buffer, 1, sizeof(buffer), pipe));
  pclose(pipe);
  return output;
}

TEST_F(Tool, OptionsAreAConfigurationFile) {
  setenv("AMDGPU_CRIU_CHUNK_KIB", "64", 1);
  const Outcome text = run("options"), json = run("options --json");
  unsetenv("AMDGPU_CRIU_CHUNK_KIB");
  EXPECT_EQ(text.status, 0);
  dir_.write("conf", text.output);
  EXPECT_EQ(options::parse({}, dir_.file("conf"))->given,
            (std::map<std::string, std::string>{{"chunk-kib", "64"}}));
  std::map<std::string, std::string> values;
  const auto parsed = nlohmann::json::parse(json.output);
  for (const auto& option : parsed["options"]) values[option["name"]] = option["value"];
  EXPECT_EQ(values["chunk-kib"], "64");
  EXPECT_EQ(values["parallel"], "on");
}

TEST_F(Tool, CompletionOffersCommandsOptionsAndDirectories) {
  EXPECT_EQ(complete("ver"), "verify\n");
  EXPECT_EQ(complete("verify --js"), "--json\n");
  EXPECT_EQ(complete("req"), "requirements\n");
  EXPECT_EQ(complete("stack-id --js"), "--json\n");
  EXPECT_EQ(complete("check --lib"), "--libdir\n");
  EXPECT_EQ(complete("show " + dir_.path()), dir_.path() + "\n");
}

}  // namespace
}  // namespace amdgpu_criu::tool
