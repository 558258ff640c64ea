// SPDX-License-Identifier: GPL-2.0
#include "snapshot/server.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/ending_process.h"
#include "host/host.h"
#include "host/tcp.h"
#include "tool/traced.h"

namespace amdgpu_criu::snapshot {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatienceForEnd{10};
constexpr unsigned kPoll = 500;  // microseconds

bool shares_namespace(pid_t pid, const char* kind) {
  struct stat ours, theirs;
  return stat(formatted("/proc/self/ns/{}", kind).c_str(), &ours) == 0 &&
         stat(formatted("/proc/{}/ns/{}", pid, kind).c_str(), &theirs) == 0 &&
         ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

std::vector<std::string> command_of(pid_t pid) {
  std::ifstream file(formatted("/proc/{}/cmdline", pid));
  std::vector<std::string> result;
  for (std::string word; std::getline(file, word, '\0');) result.push_back(word);
  return result;
}

// Nothing for a terminal or /dev/null, which a replica shares.
std::vector<std::string> outputs_of(pid_t pid) {
  std::set<std::string> result;
  std::error_code error;
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    const std::string path = formatted("/proc/{}/fd/{}", pid, descriptor);
    const std::string link = fs::read_symlink(path, error);
    struct stat status;
    if (error || !host::examine(path, status)) continue;
    if (S_ISREG(status.st_mode) && link.starts_with('/') && !link.ends_with(" (deleted)"))
      result.insert(link.substr(1));
    if (S_ISFIFO(status.st_mode) && link.starts_with("pipe:"))
      result.insert("pipe" + link.substr(5));
  }
  return {result.begin(), result.end()};
}

}  // namespace

Result<Child> start_server(const std::vector<std::string>& command, const std::string& log) {
  // Appended to, because CRIU compares the sizes of all other files at a restore.
  const Fd out = TRY(Fd::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_TRUNC, 0644));
  const Fd in = TRY(Fd::open("/dev/null", O_RDONLY));
  const Fd before = TRY(Fd::open("/proc/self/ns/pid", O_RDONLY));
  if (unshare(CLONE_NEWPID) != 0) return Error::system("cannot make a pid namespace");
  auto child = Child::start(Program{command, {}}, [&]() -> Status {
    if (setsid() < 0 || unshare(CLONE_NEWIPC) != 0)
      return Error::system("cannot make an IPC namespace");
    dup2(in.get(), STDIN_FILENO);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(out.get(), fd);
    return {};
  });
  // Later children are ordinary ones again.
  if (setns(before.get(), CLONE_NEWPID) != 0) return Error::system("cannot leave a pid namespace");
  return child;
}

Result<Server> examine_server(pid_t pid) {
  Server server;
  server.pids = TRY(tool::tree_of(pid));
  for (const char* kind : {"mnt", "user"})
    if (!shares_namespace(pid, kind))
      return Error::of(EOPNOTSUPP,
                       "process {} is in a {} namespace of its own, as in a container: use the "
                       "checkpoint of its engine",
                       pid, kind);
  server.command = command_of(pid);
  server.pid = TRY(host::namespace_pid(pid));
  server.own_pid_namespace = !shares_namespace(pid, "pid");
  if (server.own_pid_namespace && server.pid != 1)
    return Error::of(EOPNOTSUPP,
                     "process {} has number {} in its pid namespace: a snapshot is of process 1, "
                     "and all its descendants",
                     pid, server.pid);
  for (const host::TcpSocket& socket : host::tcp_sockets_of(server.pids))
    if (socket.listening)
      server.listeners.push_back({socket.address, socket.port});
    else
      server.connections++;
  server.outputs = outputs_of(pid);
  return server;
}

// Numbers of descendants are theirs until their parents continue.
void continue_tree(const std::vector<Pidfd>& noted) {
  std::set<pid_t> known;
  std::vector<Pidfd> forked;
  for (const Pidfd& one : noted) known.insert(one.pid());
  for (const Pidfd& one : noted) {
    const auto tree = tool::tree_of(one.pid());
    if (!tree.ok() || has_ended(one)) continue;
    for (const pid_t pid : *tree)
      if (known.insert(pid).second) forked.push_back(Pidfd::find(pid));
  }
  for (const auto* processes : {&noted, &std::as_const(forked)})
    for (const Pidfd& one : *processes) one.signal(SIGCONT);
}

Status need_pidfds() {
  auto self = Pidfd::open(getpid());
  if (self.ok()) return {};
  return std::move(self).error().within(
      "this command needs pidfd_open(2), which the kernel or a filter refuses");
}

Result<std::vector<Pidfd>> open_all(const std::vector<pid_t>& pids) {
  std::vector<Pidfd> result;
  for (const pid_t pid : pids) {
    auto process = Pidfd::open(pid);
    if (!process.ok() && process.error().code() != ESRCH) return process.error();
    if (process.ok()) result.push_back(*std::move(process));
  }
  return result;
}

void kill_tree(std::vector<Pidfd> processes) {
  std::erase_if(processes, [](const Pidfd& one) { return !one.signal(SIGSTOP); });
  std::set<pid_t> known;
  for (const Pidfd& one : processes) known.insert(one.pid());
  auto deadline = Clock::now() + kPatienceForEnd;
  for (size_t i = 0; i < processes.size(); i++) {
    const pid_t pid = processes[i].pid();
    // Until it has stopped, it may fork. Its children are listed only while it lives.
    while (!tool::is_stopped(pid) && Clock::now() < deadline) usleep(kPoll);
    const auto children = host::children_of(pid);
    for (const pid_t child : children.ok() ? *children : std::vector<pid_t>()) {
      auto process = Pidfd::find(child);
      if (!known.insert(child).second || !process.signal(SIGSTOP)) continue;
      processes.push_back(std::move(process));
    }
  }
  for (const Pidfd& one : processes) one.signal(SIGKILL);
  deadline = Clock::now() + kPatienceForEnd;
  while (!std::ranges::all_of(processes, has_ended) && Clock::now() < deadline) usleep(kPoll);
}

}  // namespace amdgpu_criu::snapshot
