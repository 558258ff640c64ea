// SPDX-License-Identifier: GPL-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/pipe.h"
#include "snapshot/criu_command.h"
#include "snapshot/network.h"
#include "snapshot/readiness.h"
#include "snapshot/refusals.h"
#include "snapshot/verdict.h"
#include "tests/refused_call.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::snapshot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::TempDir;

constexpr uint64_t kMib = 1 << 20;

Manifest server_on_two_gpus() {
  Manifest manifest;
  manifest.tcp = "close";
  manifest.server.command = {"llama-server", "--port", "8080"};
  manifest.server.pids = {4711};
  manifest.server.own_pid_namespace = true;
  manifest.server.listeners = {{"0.0.0.0", 8080}};
  manifest.server.outputs = {"tmp/log"};
  manifest.gpus = {{"gfx90a", 90010, 100 * kMib}, {"gfx90a", 90010, kMib}};
  manifest.vram = 100 * kMib;
  return manifest;
}

Place two_gpus() { return {{{90010, 256 * kMib}, {90010, 256 * kMib}}, {}, {}}; }

RestoreOptions on_veth(unsigned replicas) {
  RestoreOptions options;
  options.replicas = replicas;
  options.network = Network::kVeth;
  return options;
}

std::string refusal(const Manifest& manifest, const RestoreOptions& options, const Place& place) {
  const Status status = refuse_restore(manifest, options, place);
  return status.ok() ? "" : status.error().message();
}

TEST(Manifest, IsReadAsItWasWritten) {
  const TempDir dir;
  Manifest manifest = server_on_two_gpus();
  manifest.files = {{"images/a", 5, "blake3:00"}};
  manifest.readiness.port = 8080;
  ASSERT_TRUE(write_manifest(dir.path(), manifest).ok());
  EXPECT_THAT(dir.names(), ElementsAre(kManifest));
  const auto read = read_manifest(dir.path());
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(json_of(*read), json_of(manifest));
  EXPECT_EQ(read->bytes(), 5u);
  EXPECT_EQ(read->gpu_memory(), 101 * kMib);
}

TEST(Manifest, ThatCannotBeWrittenLeavesNoFile) {
  const TempDir dir;
  ASSERT_EQ(mkdir(dir.file(kManifest).c_str(), 0700), 0);
  EXPECT_THAT(write_manifest(dir.path(), {}).error().message(), HasSubstr("cannot write"));
  EXPECT_THAT(dir.names(), ElementsAre(kManifest));
}

TEST(Manifest, WrittenInPartLeavesNoFile) {
  const TempDir dir;
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{16, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_manifest(dir.path(), server_on_two_gpus());
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), EFBIG);
  EXPECT_TRUE(dir.names().empty());
}

// A command line may have any bytes.
TEST(Manifest, IsUtf8WhateverTheCommand) {
  const TempDir dir;
  Manifest manifest;
  manifest.server.command = {"caf\xe9"};
  ASSERT_TRUE(write_manifest(dir.path(), manifest).ok());
  EXPECT_EQ(read_manifest(dir.path())->server.command[0], "caf\ufffd");
}

TEST(Manifest, OfAnotherVersionOrDamagedIsRefusedByName) {
  const TempDir dir;
  EXPECT_THAT(read_manifest(dir.path()).error().message(), HasSubstr("is no complete snapshot"));
  dir.write(kManifest, "{\"amdgpu_criu_snapshot\": 7}");
  EXPECT_THAT(read_manifest(dir.path()).error().message(), HasSubstr("has version 7"));
  dir.write(kManifest, "{\"amdgpu_criu_snapshot\": 1, \"created\"");
  EXPECT_THAT(read_manifest(dir.path()).error().message(), HasSubstr("manifest.json is damaged"));
  dir.write(kManifest, "{\"amdgpu_criu_snapshot\": 1, \"server\": {\"pids\": \"x\"}}");
  EXPECT_THAT(read_manifest(dir.path()).error().message(), HasSubstr("manifest.json is damaged"));
}

TEST(Files, ThatChangedOrAreMissingAreNamed) {
  const TempDir dir;
  ASSERT_EQ(mkdir(dir.file(kImages).c_str(), 0700), 0);
  dir.write("images/small", "12345");
  dir.write("images/large", std::string(2 * kMib, 'x'));
  dir.write("images/gone", "1");
  Manifest manifest;
  manifest.files = std::move(*list_images(dir.path()));
  EXPECT_THAT(*damage_of(dir.path(), manifest, Check::kAll), ElementsAre());
  dir.write("images/large", std::string(2 * kMib, 'y'));
  EXPECT_THAT(*damage_of(dir.path(), manifest, Check::kSizes), ElementsAre());
  EXPECT_THAT(*damage_of(dir.path(), manifest, Check::kAll),
              ElementsAre("images/large has another BLAKE3 digest"));
  dir.write("images/small", "12346");
  ASSERT_EQ(unlink(dir.file("images/gone").c_str()), 0);
  EXPECT_THAT(*damage_of(dir.path(), manifest, Check::kSizes),
              ElementsAre("images/gone: No such file or directory",
                          "images/small has another BLAKE3 digest"));
  dir.write("images/small", "1");
  EXPECT_THAT((*damage_of(dir.path(), manifest, Check::kSizes))[1],
              HasSubstr("images/small has 1 bytes instead of 5"));
}

TEST(Files, ThatCannotBeExaminedAreNotCalledDamaged) {
  const TempDir dir;
  ASSERT_EQ(mkdir(dir.file(kImages).c_str(), 0700), 0);
  ASSERT_EQ(symlink("loop", dir.file("images/loop").c_str()), 0);
  Manifest manifest;
  manifest.files = {{"images/loop", 5, {}}};
  const auto damage = damage_of(dir.path(), manifest, Check::kAll);
  ASSERT_FALSE(damage.ok());
  EXPECT_THAT(damage.error().message(), HasSubstr("images/loop: Too many levels"));
}

// Exits with 0 if it does not read 4 GiB, which takes seconds.
[[noreturn]] void hash_until_interrupted(const std::string& directory) {
  watch_for_signals();
  const Child killer = *Child::start(Program::shell("sleep 0.1; kill -INT $PPID"));
  const auto files = list_images(directory);
  _exit(!files.ok() && files.error().code() == EINTR ? 0 : 1);
}

TEST(Files, AreReadNoFurtherAfterASignal) {
  const TempDir dir;
  ASSERT_EQ(mkdir(dir.file(kImages).c_str(), 0700), 0);
  dir.write("images/large", "");
  ASSERT_EQ(truncate(dir.file("images/large").c_str(), off_t{4} << 30), 0);
  EXPECT_EXIT(hash_until_interrupted(dir.path()), testing::ExitedWithCode(0), "");
}

TEST(CriuCommand, PrintsWhatAShellUnderstandsAndTheReasons) {
  CriuCommand criu("criu", "dump");
  criu.add("-D", "/a b/images");
  criu.add("--link-remap", "", "process 7 needs it");
  criu.set("REPLICAS", "on");
  EXPECT_EQ(criu.program().text(),
            "AMDGPU_CRIU_REPLICAS=on criu dump -D '/a b/images' --link-remap");
  EXPECT_THAT(criu.reasons(), ElementsAre("--link-remap: process 7 needs it"));
  EXPECT_EQ(Program({{"echo", "it's", ""}, {}}).text(), "echo 'it'\\''s' ''");
}

// criu changes its directory.
TEST(CriuCommand, NamesTheKeyFileByAnAbsolutePath) {
  const std::string directory = std::filesystem::current_path();
  const std::map<std::string, std::string> texts{
      {"my/key", "AMDGPU_CRIU_KEY_FILE=" + directory + "/my/key criu dump"},
      {"/my/key", "criu dump"},
      {"", "criu dump"}};
  for (const auto& [path, text] : texts) {
    setenv("AMDGPU_CRIU_KEY_FILE", path.c_str(), 1);
    EXPECT_EQ(CriuCommand("criu", "dump").program().text(), text);
  }
  unsetenv("AMDGPU_CRIU_KEY_FILE");
  EXPECT_EQ(CriuCommand("criu", "dump").program().text(), "criu dump");
}

TEST(CriuCommand, OptionsOfTheUserReplaceThoseThatWereChosen) {
  CriuCommand criu("criu", "dump");
  criu.add("--ghost-limit", "5", "a file");
  criu.add("--tcp-close", "", "so");
  criu.override_with({"--ghost-limit=7", "--track-mem"});
  EXPECT_EQ(criu.program().text(), "criu dump --tcp-close --ghost-limit=7 --track-mem");
  ASSERT_TRUE(criu.leave_out({"--tcp-close"}).ok());
  EXPECT_EQ(criu.program().text(), "criu dump --ghost-limit=7 --track-mem");
  EXPECT_THAT(criu.leave_out({"--tcp-close"}).error().message(),
              HasSubstr("--tcp-close is not an option that was added"));
}

TEST(CriuCommand, TheEnvironmentOfTheUserHasPrecedence) {
  setenv("AMDGPU_CRIU_TESTED", "mine", 1);
  CriuCommand criu("criu", "dump");
  criu.set("TESTED", "ours");
  unsetenv("AMDGPU_CRIU_TESTED");
  EXPECT_EQ(criu.program().text(), "criu dump");
}

TEST(RefuseRestore, RefusesNothingThatFits) {
  EXPECT_EQ(refusal(server_on_two_gpus(), {}, two_gpus()), "");
  EXPECT_EQ(refusal(server_on_two_gpus(), on_veth(5), two_gpus()), "");
}

TEST(RefuseRestore, RefusesOtherChipsFewerGpusAndTooLittleMemory) {
  const Manifest manifest = server_on_two_gpus();
  EXPECT_EQ(refusal(manifest, {}, {{{110000, 256 * kMib}, {90402, kMib}}, {}, {}}),
            "the snapshot needs 2 GPUs like gfx90a, and this machine has gfx1100, gfx942");
  EXPECT_EQ(refusal(manifest, {}, {}),
            "the snapshot needs 2 GPUs like gfx90a, and this machine has no GPU");
  EXPECT_THAT(refusal(manifest, {}, {{{90010, 256 * kMib}}, {}, {}}), HasSubstr("needs 2 GPUs"));
  EXPECT_EQ(refusal(manifest, on_veth(6), two_gpus()),
            "6 replicas need 600 MiB of VRAM, and all GPUs of this kind together have 512");
}

TEST(RefuseRestore, RefusesPortsAndPidsThatAreInUse) {
  Manifest manifest = server_on_two_gpus();
  Place place = two_gpus();
  place.ports = {8080};
  EXPECT_THAT(refusal(manifest, {}, place), HasSubstr("port 8080 of this machine is in use"));
  EXPECT_EQ(refusal(manifest, on_veth(1), place), "");
  place.ports = {};
  place.pids = {4711};
  EXPECT_EQ(refusal(manifest, {}, place), "");
  manifest.server.own_pid_namespace = false;
  EXPECT_THAT(refusal(manifest, {}, place), HasSubstr("process 4711 exists"));
}

TEST(RefuseRestore, RefusesReplicasThatWouldShareWhatIsUnique) {
  Manifest manifest = server_on_two_gpus();
  RestoreOptions two;
  two.replicas = 2;
  EXPECT_THAT(refusal(manifest, two, two_gpus()), HasSubstr("cannot all listen on port 8080"));
  manifest.server.own_pid_namespace = false;
  EXPECT_THAT(refusal(manifest, on_veth(2), two_gpus()), HasSubstr("pid namespace of its own"));
}

TEST(RefuseRestore, ConnectionsContinueOnlyOnceAndWhereTheyWere) {
  Manifest manifest = server_on_two_gpus();
  RestoreOptions options;
  options.tcp = "established";
  EXPECT_THAT(refusal(manifest, options, two_gpus()), HasSubstr("made with --tcp close"));
  manifest.tcp = "established";
  manifest.server.connections = 3;
  EXPECT_EQ(refusal(manifest, options, two_gpus()), "");
  EXPECT_THAT(refusal(manifest, on_veth(1), two_gpus()), HasSubstr("3 TCP connections"));
  RestoreOptions closing = on_veth(2);
  closing.tcp = "close";
  EXPECT_EQ(refusal(manifest, closing, two_gpus()), "");
}

TEST(Network, EachNumberHasANetworkOfItsOwn) {
  EXPECT_EQ(veth_of("10.213.0.0", 0)->inside, "10.213.0.2");
  EXPECT_EQ(veth_of("10.213.0.0", 64)->outside, "10.213.1.1");
  EXPECT_EQ(veth_of("10.213.0.0", 64)->device, "criu64");
  EXPECT_FALSE(veth_of("10.213.0.0", 1 << 14).ok());
  EXPECT_FALSE(veth_of("fe80::", 0).ok());
}

TEST(Network, OfAnotherRestoreIsNotTaken) {
  const auto first = find_free_veth("10.213.0.0", 5000);
  EXPECT_GT(find_free_veth("10.213.0.0", 5000)->number, first->number);
}

TEST(Network, NamesWhatKeepsANumberFromBeingTaken) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto found = find_free_veth("10.213.0.0", 5000);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), EMFILE);
}

TEST(Readiness, OfAReplicaIsThatOfCreateWithTheTimeoutOfRestore) {
  Manifest manifest;
  manifest.readiness = {"true", 8080, "ready", 300};
  RestoreOptions options;
  EXPECT_EQ(readiness_of_replica(manifest, options).timeout, 300);
  options.readiness.timeout = 5;
  options.has_timeout = true;
  const Readiness readiness = readiness_of_replica(manifest, options);
  EXPECT_EQ(readiness.timeout, 5);
  EXPECT_EQ(readiness.port, 8080u);
  EXPECT_EQ(readiness.line, "");
  options.readiness.command = "false";
  EXPECT_EQ(readiness_of_replica(manifest, options).port, 0u);
}

TEST(Readiness, OfARestoreHasTheTimeoutOfCreateUnlessItHasAnother) {
  Manifest manifest;
  manifest.readiness = {"true", 8080, "", 300};
  RestoreOptions options;
  options.readiness.port = 9090;
  const Readiness readiness = readiness_of_replica(manifest, options);
  EXPECT_EQ(readiness.port, 9090u);
  EXPECT_EQ(readiness.command, "");
  EXPECT_EQ(readiness.timeout, 300);
  options.readiness.timeout = 5;
  options.has_timeout = true;
  EXPECT_EQ(readiness_of_replica(manifest, options).timeout, 5);
}

TEST(Readiness, OfAnotherServerIsRefused) {
  const Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listening.get(), any, size), 0);
  ASSERT_EQ(getsockname(listening.get(), any, &size), 0);
  Readiness readiness;
  readiness.port = ntohs(address.sin_port);
  EXPECT_TRUE(refuse_open_port(readiness).ok());
  ASSERT_EQ(listen(listening.get(), 1), 0);
  EXPECT_THAT(refuse_open_port(readiness).error().message(), HasSubstr("accepts already"));
}

// Connections that it has not accepted fill its queue, and the kernel drops further ones.
TEST(Readiness, OfABusyPortIsNotWaitedForLongerThanTheTimeout) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to enter a network namespace";
  const Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listening.get(), any, size), 0);
  ASSERT_EQ(getsockname(listening.get(), any, &size), 0);
  ASSERT_EQ(listen(listening.get(), 0), 0);
  std::vector<Fd> waiting;
  for (int i = 0; i < 4; i++) {
    waiting.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(waiting.back().get(), any, size);
  }
  Readiness readiness;
  readiness.port = ntohs(address.sin_port);
  readiness.timeout = 0.5;
  const auto start = Clock::now();
  const Status status = wait_until_ready(readiness, {getpid(), "", {}});
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ETIMEDOUT) << status.error().message();
  const Status refused = refuse_open_port(readiness);
  ASSERT_FALSE(refused.ok()) << "another server has this port";
  EXPECT_THAT(refused.error().message(), HasSubstr("has a busy server already"));
}

TEST(ChipName, IsThatOfTheCompiler) {
  EXPECT_EQ(chip_name(90010), "gfx90a");
  EXPECT_EQ(chip_name(90402), "gfx942");
  EXPECT_EQ(chip_name(110003), "gfx1103");
}

TEST(Program, EndsWithItsStatusOrSignal) {
  EXPECT_EQ(*Child::start(Program::shell("exit 7"))->wait(), 7);
  EXPECT_EQ(*Child::start(Program::shell("kill -9 $$"))->wait(), 128 + 9);
  EXPECT_EQ(*Child::start(Program::shell("exec sleep 60"))->wait(std::chrono::milliseconds(1)),
            128 + 15);
  EXPECT_EQ(*Child::start(Program::shell("exit $N", {{"N", "5"}}))->wait(), 5);
  const Status status = run(Program::shell("exit 3"));
  EXPECT_EQ(status.error().message(), "/bin/sh -c 'exit 3' ended with status 3");
}

// As container engines do whose filters are older than the call.
[[noreturn]] void wait_without_descriptors() {
  alarm(30);
  int status = 0;
  const bool refused = testing_support::without({SYS_pidfd_open, 0, EPERM}, [&] {
    status = *Child::start(Program::shell("exit 7"))->wait();
    if (*Child::start(Program::shell("exec sleep 60"))->wait(std::chrono::milliseconds(1)) !=
        128 + SIGTERM)
      status = -1;
  });
  _exit(refused && status == 7 ? 0 : 1);
}

TEST(Program, IsAwaitedAlsoWithoutADescriptorOfIt) {
  EXPECT_EXIT(wait_without_descriptors(), testing::ExitedWithCode(0), "");
}

TEST(Program, ThatDoesNotStartIsAnErrorWithTheCause) {
  EXPECT_EQ(Child::start({{"/no/such/program"}, {}}).error().message(),
            "cannot run /no/such/program: No such file or directory");
  const auto fails = [] { return Status(Error(EPERM, "no network")); };
  EXPECT_EQ(Child::start(Program::shell("exit 0"), fails).error().message(), "no network");
}

// Exits with 0 if neither signal reaches this process, and only SIGPIPE a program that it runs.
[[noreturn]] void ignore_signals() {
  signal(SIGHUP, SIG_IGN);
  watch_for_signals();
  raise(SIGHUP);
  raise(SIGPIPE);
  if (is_interrupted()) _exit(1);
  const auto status = Child::start(Program::shell("kill -HUP $$; kill -PIPE $$"))->wait();
  _exit(*status == 128 + SIGPIPE ? 0 : 2);
}

TEST(Program, IsNotEndedByAClosedOutputNorByAHangUpUnderNohup) {
  EXPECT_EXIT(ignore_signals(), testing::ExitedWithCode(0), "");
}

// systemd lets services ignore it.
[[noreturn]] void keep_ignored() {
  signal(SIGPIPE, SIG_IGN);
  watch_for_signals();
  const auto status = Child::start(Program::shell("kill -PIPE $$"))->wait();
  _exit(*status);
}

TEST(Program, IgnoresAClosedOutputIfThisCommandDid) {
  EXPECT_EXIT(keep_ignored(), testing::ExitedWithCode(0), "");
}

// The status of the action script, as criu would run it.
int status_of_script(const char* action, std::optional<bool> is_good) {
  std::optional<Verdict> verdict = std::move(*Verdict::create());
  Child child = *Child::start({{verdict->script()}, {{"CRTOOLS_SCRIPT_ACTION", action}}}, [] {
    return close_range(3, ~0u, 0) == 0 ? Status() : Status(Error(errno, ""));
  });
  return *child.wait({}, [&] {
    if (!verdict || !verdict->is_asked_for()) return;
    if (is_good)
      verdict->give(*is_good);
    else
      verdict.reset();
  });
}

TEST(Verdict, IsGivenAfterTheDump) {
  EXPECT_EQ(status_of_script("pre-dump", {}), 0);
  EXPECT_EQ(status_of_script("post-dump", true), 0);
  EXPECT_EQ(status_of_script("post-dump", false), 1);
}

TEST(Verdict, IsNoIfThisCommandIsKilled) { EXPECT_EQ(status_of_script("post-dump", {}), 1); }

}  // namespace
}  // namespace amdgpu_criu::snapshot
