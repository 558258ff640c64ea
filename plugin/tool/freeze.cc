// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu freeze` and `thaw`. A background process holds the driver's session, which keeps the
// GPU work paused: the end of the process ends the pause. A socket, whose name has the number of
// the frozen process, prevents a second one, and connects `thaw` to it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>

#include "base/pipe.h"
#include "dump/tree.h"
#include "host/run_directory.h"
#include "tool/commands.h"
#include "tool/output.h"
#include "tool/traced.h"

namespace amdgpu_criu::tool {
namespace {

// Another freeze has the lock only while it makes its socket.
constexpr std::chrono::seconds kLongestLock{5};
// What the background process writes when everything is paused; the reason of a failure has none.
constexpr char kPaused = 0;

// Where only the caller can make a socket: any user may bind an abstract name.
Result<std::string> run_directory() {
  if (geteuid() == 0) return host::Config().run_directory;
  const char* own = getenv("XDG_RUNTIME_DIR");
  if (!own || !*own) return Error(ENOENT, "set XDG_RUNTIME_DIR, or run this as root");
  return std::string(own) + "/amdgpu-criu";
}

// Other pid namespaces have the same numbers.
Result<sockaddr_un> address_of(pid_t pid) {
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) != 0) return Error::system("cannot read the pid namespace");
  const std::string path =
      formatted("{}/freeze-{}-{}", TRY(run_directory()), static_cast<uint64_t>(space.st_ino), pid);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof(address.sun_path))
    return Error::of(ENAMETOOLONG, "the path {} is too long for a socket", path);
  path.copy(address.sun_path, path.size());
  return address;
}

int connect_to(const Fd& socket, const sockaddr_un& address) {
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

// A socket of root can be reached only by root, and another one by root and its user.
bool may_ask(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || peer.uid == geteuid());
}

Fd make_socket(int type = SOCK_STREAM) { return Fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0)); }

// A socket of another type connects to none, and the errno distinguishes one that is in use from
// the file of a process that was killed.
bool is_left_over(const sockaddr_un& address) {
  return connect_to(make_socket(SOCK_DGRAM), address) != 0 && errno == ECONNREFUSED;
}

Result<Fd> listen_for_thaw(pid_t pid, const sockaddr_un& address) {
  const Fd directory = TRY(host::open_run_directory(TRY(run_directory())));
  const Fd turn = TRY(host::lock_in(directory, host::kTurnOfFreezes, kLongestLock,
                                    "another amdgpu-criu freeze does not end"));
  if (is_left_over(address)) (void)unlink(address.sun_path);
  Fd socket = make_socket();
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE) return Error::of(EBUSY, "process {} is frozen already", pid);
    return Error::system("cannot make the socket {}", address.sun_path);
  }
  if (listen(socket.get(), 1) != 0) return Error::system("cannot listen");
  return socket;
}

// Keeps a process tree paused.
class Holder {
 public:
  static Result<Holder> freeze(pid_t pid) {
    Holder holder;
    const sockaddr_un address = TRY(address_of(pid));
    holder.socket_ = TRY(listen_for_thaw(pid, address));
    holder.path_ = address.sun_path;
    const auto stopped = TRY(StoppedTree::stop(pid));
    const Status paused = holder.pause(stopped.pids());
    // Also after an error: the end of the session resumes processes that are already paused.
    holder.tree_->leave_to_session();
    TRY(paused);
    if (holder.frozen_.empty()) return Error::of(ENOENT, "process {} uses no AMD GPU", pid);
    return holder;
  }

  Holder(Holder&& other) noexcept
      : socket_(std::move(other.socket_)),
        path_(std::exchange(other.path_, {})),
        api_(std::move(other.api_)),
        host_(std::move(other.host_)),
        interruption_(std::move(other.interruption_)),
        tree_(std::move(other.tree_)),
        frozen_(std::move(other.frozen_)) {}
  Holder& operator=(Holder&&) = delete;
  ~Holder() {
    if (!path_.empty()) (void)unlink(path_.c_str());
  }

  // Waits for a thaw, or for the end of all frozen processes. Returns the socket of the thawing
  // process, if any.
  Fd wait() {
    for (;;) {
      std::vector<pollfd> events{{socket_.get(), POLLIN, 0}};
      for (const Pidfd& process : frozen_) events.push_back({process.fd().get(), POLLIN, 0});
      if (poll(events.data(), events.size(), -1) < 0) continue;
      if (events[0].revents != 0) {
        Fd asking(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (asking.valid() && may_ask(asking.get())) return asking;
      }
      for (size_t i = frozen_.size(); i-- > 0;)
        if (events[i + 1].revents != 0) frozen_.erase(frozen_.begin() + static_cast<ptrdiff_t>(i));
      if (frozen_.empty()) return {};
    }
  }

 private:
  Holder() : host_(std::make_unique<host::Host>(host::Host::create())) {
    tree_ = std::make_unique<dump::Tree>(*api_, *host_, *interruption_);
  }

  Status pause(std::span<const pid_t> pids) {
    for (const pid_t pid : pids) TRY(tree_->add(pid));
    for (const dump::Member& member : tree_->members()) {
      Pidfd process = Pidfd::open(member.pid);
      // Without it, the pause would not end with the process.
      if (!process.valid() && errno != ESRCH)
        return Error::system("cannot watch process {}", member.pid);
      if (process.valid()) frozen_.push_back(std::move(process));
    }
    return tree_->check_paused();
  }

  Fd socket_;
  std::string path_;  // of the socket; empty: another object removes it
  std::unique_ptr<kernel::Api> api_ = kernel::make_ioctl_api();
  std::unique_ptr<host::Host> host_;
  // Nothing interrupts it.
  std::unique_ptr<Interruption> interruption_ =
      std::make_unique<Interruption>(std::chrono::seconds(0));
  std::unique_ptr<dump::Tree> tree_;
  std::vector<Pidfd> frozen_;
};

void leave_terminal() {
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), fd);
  (void)!chdir("/");
}

// `report` gets kPaused or the reason of a failure. If its reader has ended, nothing stays paused.
int hold(pid_t pid, Fd report) {
  setsid();
  signal(SIGPIPE, SIG_IGN);
  Fd asking;
  {
    auto holder = without_exceptions([pid] { return Holder::freeze(pid); });
    if (!holder.ok()) {
      const std::string& why = holder.error().message();
      return write(report.get(), why.data(), why.size()) < 0 ? 2 : 1;
    }
    leave_terminal();
    if (write(report.get(), &kPaused, 1) != 1) return 1;
    report.reset();
    asking = holder->wait();
  }
  return 0;  // closing `asking` reports that all GPU work continues
}

}  // namespace

int freeze(pid_t pid) {
  auto pipe = Pipe::create();
  if (!pipe.ok()) return complain(2, pipe.error().message());
  const pid_t child = fork();
  if (child < 0) return complain(2, Error::system("fork").message());
  if (child == 0) _exit(hold(pid, std::move(pipe->write)));
  pipe->write.reset();
  std::string said;
  char buffer[512];
  for (ssize_t got; (got = read(pipe->read.get(), buffer, sizeof(buffer))) > 0;)
    said.append(buffer, got);
  if (said.empty()) return complain(2, "the process that was to hold the pause has died");
  if (said.front() != kPaused) return complain(1, said);
  printf("the GPU work of process %d is paused; process %d holds it, until amdgpu-criu thaw\n", pid,
         child);
  return 0;
}

int thaw(pid_t pid) {
  const auto address = address_of(pid);
  if (!address.ok()) return complain(2, address.error().message());
  const Fd socket = make_socket();
  if (connect_to(socket, *address) != 0 || !may_ask(socket.get()))
    return complain(1, formatted("process {} is not frozen by amdgpu-criu freeze", pid));
  char nothing;
  if (read(socket.get(), &nothing, 1) < 0) return complain(2, Error::system("read").message());
  return 0;
}

}  // namespace amdgpu_criu::tool
