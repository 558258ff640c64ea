// SPDX-License-Identifier: GPL-2.0
#include "snapshot/readiness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "host/host.h"

namespace amdgpu_criu::snapshot {
namespace {

constexpr std::chrono::milliseconds kBetweenProbes{50};
using Limit = std::chrono::milliseconds;

// Of one try of the command.
constexpr Limit kProbeLimit{30'000};
// Of one try of the port. Without a limit, connect() waits for two minutes if the server has too
// many connections that it has not accepted, and no signal ends Child::start() meanwhile.
constexpr timeval kConnectLimit{1, 0};

// kBusy: a server listens, and its queue of connections that it has not accepted is full.
enum class Answer { kNone, kBusy, kAccepts };

Answer ask(unsigned port, int family) {
  const Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectLimit, sizeof(kConnectLimit));
  const auto number = htons(static_cast<uint16_t>(port));
  const sockaddr_in v4{AF_INET, number, {htonl(INADDR_LOOPBACK)}, {}};
  const sockaddr_in6 v6{AF_INET6, number, 0, IN6ADDR_LOOPBACK_INIT, 0};
  const int result =
      family == AF_INET ? connect(socket.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof(v4))
                        : connect(socket.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
  if (result == 0) return Answer::kAccepts;
  return errno == EINPROGRESS || errno == EAGAIN ? Answer::kBusy : Answer::kNone;
}

Answer ask(unsigned port) {
  const Answer v4 = ask(port, AF_INET);
  return v4 == Answer::kAccepts ? v4 : std::max(v4, ask(port, AF_INET6));
}

// A process of its own, because this one stays in its network namespace.
bool port_is_open(unsigned port, pid_t pid) {
  auto child = Child::start(Program{{"true"}, {}}, [&]() -> Status {
    TRY(enter_network_of(pid));
    _exit(ask(port) == Answer::kAccepts ? 0 : 1);
  });
  if (!child.ok()) return false;
  const auto status = child->wait();
  return status.ok() && *status == 0;
}

bool command_succeeds(const std::string& command, const Probe& probe, Limit limit) {
  const auto silent = [&]() -> Status {
    const Fd null = TRY(Fd::open("/dev/null", O_RDWR));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), fd);
    return enter_network_of(probe.pid);
  };
  auto child = Child::start(Program::shell(command, probe.variables), silent);
  if (!child.ok()) return false;
  const auto status = child->wait(limit);
  return status.ok() && *status == 0;
}

bool log_has(const std::string& text, const std::string& log) {
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);)
    if (line.find(text) != line.npos) return true;
  return false;
}

bool is_ready(const Readiness& readiness, const Probe& probe, Limit limit) {
  return (readiness.line.empty() || log_has(readiness.line, probe.log)) &&
         (readiness.port == 0 || port_is_open(readiness.port, probe.pid)) &&
         (readiness.command.empty() || command_succeeds(readiness.command, probe, limit));
}

}  // namespace

Status enter_network_of(pid_t pid) {
  const Fd file = TRY(Fd::open(formatted("/proc/{}/ns/net", pid).c_str(), O_RDONLY));
  if (setns(file.get(), CLONE_NEWNET) != 0)
    return Error::system("cannot enter the network namespace of process {}", pid);
  return {};
}

Readiness readiness_of_replica(const Manifest& manifest, const RestoreOptions& options) {
  Readiness readiness = options.readiness;
  if (readiness.is_empty()) {
    readiness = manifest.readiness;
    readiness.line.clear();  // it was printed before the snapshot
  }
  readiness.timeout = options.has_timeout ? options.readiness.timeout : manifest.readiness.timeout;
  return readiness;
}

Status refuse_open_port(const Readiness& readiness) {
  const unsigned port = readiness.port;
  const Answer answer = port == 0 ? Answer::kNone : ask(port);
  if (answer == Answer::kNone) return {};
  return Error::of(EADDRINUSE,
                   "port {} of this machine {} already, and would not show that the server is "
                   "ready: end its server, or choose another port",
                   port, answer == Answer::kAccepts ? "accepts" : "has a busy server");
}

Status wait_until_ready(const Readiness& readiness, const Probe& probe) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(readiness.timeout);
  const auto time_left = [&] {
    const auto left = std::chrono::duration_cast<Limit>(deadline - Clock::now());
    return std::clamp(left, Limit(0), kProbeLimit);
  };
  while (!is_ready(readiness, probe, time_left())) {
    if (host::has_ended(probe.pid))
      return Error::of(ESRCH, "the server has ended before it was ready{}{}",
                       probe.log.empty() ? "" : "; see ", probe.log);
    if (Clock::now() > deadline)
      return Error::of(ETIMEDOUT, "the server is not ready after {:.0f} s", readiness.timeout);
    if (!pause_for(kBetweenProbes)) return Error(EINTR, "interrupted");
  }
  return {};
}

}  // namespace amdgpu_criu::snapshot
