// SPDX-License-Identifier: GPL-2.0
#include "snapshot/replica.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "snapshot/readiness.h"
#include "snapshot/refusals.h"
#include "snapshot/server.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr char kReplicaLog[] = "server.log";
constexpr char kRestoreLog[] = "restore.log";
constexpr char kPidFile[] = "pid";

pid_t read_pid(const std::string& path) {
  std::ifstream file(path);
  pid_t pid = 0;
  file >> pid;
  return pid;
}

// A lock on the directory: taken while a restore is under way.
Result<Fd> lock_if_free(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
    return Error::system("cannot make {}", directory);
  Fd lock = TRY(Fd::open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  const pid_t pid = read_pid(directory + "/" + kPidFile);
  if (pid > 0 && kill(pid, 0) == 0) return Fd();
  (void)unlink((directory + "/" + kPidFile).c_str());
  return lock;
}

}  // namespace

Result<Replica> Replica::prepare(const Manifest& manifest, const RestoreOptions& options,
                                 const std::string& state_directory, unsigned& next_network) {
  Replica replica(manifest, options);
  // The first number that no living replica has.
  while (!replica.lock_.valid()) {
    replica.directory_ = formatted("{}/{}", state_directory, ++replica.number_);
    replica.lock_ = TRY(lock_if_free(replica.directory_));
  }
  TRY(replica.open_logs());
  if (options.network == Network::kVeth) {
    replica.veth_ = TRY(find_free_veth(options.subnet, next_network));
    next_network = replica.veth_->number + 1;
  }
  return replica;
}

Result<Replica> Replica::preview(const Manifest& manifest, const RestoreOptions& options,
                                 const std::string& state_directory) {
  Replica replica(manifest, options);
  replica.number_ = 1;
  replica.directory_ = state_directory + "/1";
  for (size_t i = 0; i < manifest.server.outputs.size(); i++)
    replica.logs_.push_back(TRY(Fd::open("/dev/null", O_WRONLY)));
  return replica;
}

Status Replica::open_logs() {
  (void)unlink(path(kRestoreLog).c_str());  // of an earlier replica
  constexpr int kAppend = O_WRONLY | O_APPEND | O_CREAT;
  TRY(Fd::open(path(kReplicaLog).c_str(), kAppend | O_TRUNC, 0644));
  for (size_t i = 0; i < manifest_->server.outputs.size(); i++)
    logs_.push_back(TRY(Fd::open(path(kReplicaLog).c_str(), kAppend)));
  return {};
}

Result<CriuCommand> Replica::command() const {
  CriuCommand criu(options_->criu.program, "restore");
  criu.add("-d");
  criu.add("-D", std::filesystem::absolute(options_->directory) / kImages);
  criu.add("-W", directory_);
  criu.add("-o", kRestoreLog);
  criu.add("-v4", "", "a log that explains a failure");
  criu.add("--pidfile", path(kPidFile));
  if (!options_->criu.libdir.empty()) criu.add("-L", options_->criu.libdir);
  const std::string& tcp = options_->tcp.empty() ? manifest_->tcp : options_->tcp;
  criu.add("--tcp-" + tcp, "", options_->tcp.empty() ? "as at create" : "asked for by --tcp");
  for (const std::string& option : manifest_->restore_options)
    criu.add(option, "", "the snapshot was made with it");
  for (size_t i = 0; i < logs_.size(); i++)
    criu.add("--inherit-fd", formatted("fd[{}]:{}", logs_[i].get(), manifest_->server.outputs[i]),
             "the replica has a log of its own");
  if (manifest_->server.own_pid_namespace) criu.set("REPLICAS", "on");
  criu.override_with(options_->criu.words);
  TRY(criu.leave_out(options_->criu.leave_outs));
  return criu;
}

Status Replica::restore(Report& report) {
  const auto start = Clock::now();
  TRY(run_criu(report));
  Status status = wait_until_ready();
  if (status.ok()) {
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
    status = call_hook();
  }
  if (!status.ok()) end();
  return status;
}

Status Replica::run_criu(Report& report) {
  CriuCommand criu = TRY(command());
  auto status_lines = TRY(StatusPipe::create());
  criu.set("STATUS_FD", formatted("{}", status_lines.writing_end()));
  Child child = TRY(Child::start(criu.program(), [&]() -> Status {
    TRY(status_lines.keep_in_child());
    for (const Fd& log : logs_)
      if (fcntl(log.get(), F_SETFD, 0) != 0) return Error::system("cannot keep a log");
    return options_->network == Network::kHost ? Status() : enter_new_network(veth_);
  }));
  status_lines.close_writing_end();
  const std::string prefix = formatted("replica {}: ", number_);
  const int status = TRY(child.wait({}, [&] { status_lines.read(report, prefix); }));
  if (status != 0)
    return Error::of(ECHILD, "replica {}: criu restore ended with status {}: {}", number_, status,
                     last_error(path(kRestoreLog)));
  // If it has ended, it is a zombie of this command, and nobody else has its number.
  const pid_t pid = read_pid(path(kPidFile));
  auto process = Pidfd::open(pid);
  if (!process.ok()) return std::move(process).error().within(formatted("replica {}", number_));
  process_ = *std::move(process);
  return {};
}

Status Replica::wait_until_ready() const {
  const Readiness readiness = readiness_of_replica(*manifest_, *options_);
  Status status = snapshot::wait_until_ready(readiness, {pid(), path(kReplicaLog), variables()});
  if (status.ok()) return status;
  return std::move(status).error().within(formatted("replica {}", number_));
}

Status Replica::call_hook() const {
  if (options_->restored.empty()) return {};
  return run(Program::shell(options_->restored, variables()));
}

Variables Replica::variables() const {
  std::set<unsigned> ports;
  for (const Listener& listener : manifest_->server.listeners) ports.insert(listener.port);
  std::string text;
  for (const unsigned port : ports) text += formatted("{}{}", text.empty() ? "" : " ", port);
  return {{"SNAPSHOT_DIRECTORY", std::filesystem::absolute(options_->directory)},
          {"SNAPSHOT_REPLICA", formatted("{}", number_)},
          {"SNAPSHOT_PID", formatted("{}", pid())},
          {"SNAPSHOT_ADDRESS", address()},
          {"SNAPSHOT_PORTS", text},
          {"SNAPSHOT_LOG", path(kReplicaLog)}};
}

std::string Replica::gpus() const {
  constexpr std::string_view kChosen = "of the images is restored on ";
  std::ifstream file(path(kRestoreLog));
  std::string result;
  for (std::string line; std::getline(file, line);)
    if (const size_t at = line.find(kChosen); at != line.npos)
      result += (result.empty() ? "" : "; ") + line.substr(at + kChosen.size());
  return result;
}

void Replica::end() {
  if (!process_.valid()) return;
  std::vector<Pidfd> processes;
  processes.push_back(std::move(process_));
  kill_tree(std::move(processes));
}

// The lock, the logs, the process, the name of its network, and pipes to criu and to a command that
// is started.
unsigned Replica::descriptors(const Manifest& manifest) {
  return 10 + static_cast<unsigned>(manifest.server.outputs.size());
}

}  // namespace amdgpu_criu::snapshot
