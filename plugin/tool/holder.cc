// SPDX-License-Identifier: GPL-2.0
#include "tool/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/pipe.h"
#include "host/run_directory.h"
#include "tool/output.h"
#include "tool/traced.h"

namespace amdgpu_criu::tool {
namespace {

// Another freeze has the lock only while it makes its socket.
constexpr std::chrono::seconds kLongestLock{5};
// What the background process writes before what it announces, and before the bytes that it is to
// move. The reason of a failure has neither.
constexpr char kPaused = 0;
constexpr char kMoves = 1;
// Between two reports of progress.
constexpr int kProgressMs = 100;
// Who connects sends its request at once.
constexpr timeval kRequestTime{.tv_sec = 5, .tv_usec = 0};

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

Result<Fd> listen_for_requests(pid_t pid, const sockaddr_un& address) {
  const Fd directory = TRY(host::open_run_directory(TRY(run_directory())));
  const Fd turn = TRY(host::lock_in(directory, host::kTurnOfFreezes, kLongestLock,
                                    "another amdgpu-criu freeze does not end"));
  if (is_left_over(address)) (void)unlink(address.sun_path);
  Fd socket = make_socket();
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE)
      return Error::of(EBUSY, "process {} is frozen or suspended already", pid);
    return Error::system("cannot make the socket {}", address.sun_path);
  }
  if (listen(socket.get(), 1) != 0) return Error::system("cannot listen");
  return socket;
}

// Keeps a process tree paused.
class Holder {
 public:
  static Result<Holder> begin(pid_t pid, Purpose& purpose,
                              const std::function<void(uint64_t)>& moves) {
    Holder holder(pid, purpose);
    const sockaddr_un address = TRY(address_of(pid));
    holder.socket_ = TRY(listen_for_requests(pid, address));
    holder.path_ = address.sun_path;
    const auto stopped = TRY(StoppedTree::stop(pid));
    Status done = holder.pause(stopped.pids());
    if (done.ok() && holder.held_.empty())
      done = Error::of(ENOENT, "process {} uses no AMD GPU", pid);
    if (done.ok()) done = purpose.begin(*holder.api_, *holder.host_, *holder.tree_, moves);
    // Also after an error: the end of the session resumes processes that are already paused.
    holder.tree_->leave_to_session();
    TRY(done);
    return holder;
  }

  Holder(Holder&& other) noexcept
      : pid_(other.pid_),
        purpose_(other.purpose_),
        socket_(std::move(other.socket_)),
        path_(std::exchange(other.path_, {})),
        api_(std::move(other.api_)),
        host_(std::move(other.host_)),
        interruption_(std::move(other.interruption_)),
        tree_(std::move(other.tree_)),
        held_(std::move(other.held_)) {}
  Holder& operator=(Holder&&) = delete;
  ~Holder() {
    if (!path_.empty()) (void)unlink(path_.c_str());
  }

  // Answers requests, until one ends the pause or all paused processes have ended. Returns the
  // socket of that request, if any.
  Fd serve() {
    for (;;) {
      std::vector<pollfd> events{{socket_.get(), POLLIN, 0}};
      for (const Pidfd& process : held_) events.push_back({process.fd().get(), POLLIN, 0});
      if (poll(events.data(), events.size(), -1) < 0) continue;
      if (events[0].revents != 0) {
        Fd asking(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (asking.valid() && may_ask(asking.get()) && answer(asking)) return asking;
      }
      for (size_t i = held_.size(); i-- > 0;)
        if (events[i + 1].revents != 0) held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
      if (held_.empty()) return {};
    }
  }

 private:
  Holder(pid_t pid, Purpose& purpose)
      : pid_(pid), purpose_(purpose), host_(std::make_unique<host::Host>(host::Host::create())) {
    tree_ = std::make_unique<dump::Tree>(*api_, *host_, *interruption_);
  }

  Status pause(std::span<const pid_t> pids) {
    for (const pid_t pid : pids) TRY(tree_->add(pid));
    for (const dump::Member& member : tree_->members()) {
      auto process = Pidfd::open(member.pid);
      // Without it, the pause would not end with the process.
      if (!process.ok() && process.error().code() != ESRCH) return process.error();
      if (process.ok()) held_.push_back(*std::move(process));
    }
    return tree_->check_paused();
  }

  // True if the request ends the pause.
  bool answer(const Fd& asking) const {
    char request = 0;
    setsockopt(asking.get(), SOL_SOCKET, SO_RCVTIMEO, &kRequestTime, sizeof(kRequestTime));
    if (recv(asking.get(), &request, 1, 0) != 1) return false;
    std::string text;
    if (request == static_cast<char>(Request::kState)) {
      text = purpose_.state(getpid());
    } else {
      const Status may =
          purpose_.may_end(pid_, static_cast<Request>(request), *api_, *host_, *tree_);
      if (may.ok()) return true;
      text = may.error().message();
    }
    (void)!write(asking.get(), text.data(), text.size());
    return false;
  }

  pid_t pid_;
  Purpose& purpose_;
  Fd socket_;
  std::string path_;  // of the socket; empty: another object removes it
  std::unique_ptr<kernel::Api> api_ = kernel::make_ioctl_api();
  std::unique_ptr<host::Host> host_;
  // Nothing interrupts it.
  std::unique_ptr<Interruption> interruption_ =
      std::make_unique<Interruption>(std::chrono::seconds(0));
  std::unique_ptr<dump::Tree> tree_;
  std::vector<Pidfd> held_;
};

// Others may wait until what the caller has left open is closed: a lock of flock(1), or a pipe.
void close_inherited_except(const Fd& kept) {
  constexpr unsigned kFirst = STDERR_FILENO + 1;
  const auto number = static_cast<unsigned>(kept.get());
  if (number > kFirst) (void)close_range(kFirst, number - 1, 0);
  (void)close_range(std::max(number + 1, kFirst), ~0u, 0);
}

void leave_terminal() {
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), fd);
  (void)!chdir("/");
}

// `report` gets kMoves with a number, then kPaused with what is announced, or the reason of a
// failure. If its reader has ended, nothing stays paused.
int hold(pid_t pid, Purpose& purpose, Fd report) {
  close_inherited_except(report);
  setsid();
  signal(SIGPIPE, SIG_IGN);
  Fd asking;
  {
    const auto moves = [&](uint64_t bytes) {
      (void)write_all(report, kMoves + std::to_string(bytes) + '\n');
    };
    auto holder = without_exceptions([&] { return Holder::begin(pid, purpose, moves); });
    if (!holder.ok()) return write_all(report, holder.error().message()).ok() ? 1 : 2;
    leave_terminal();
    if (!write_all(report, kPaused + purpose.announce(pid, getpid())).ok()) return 1;
    report.reset();
    asking = holder->serve();
  }
  return 0;  // closing `asking` reports that all GPU work continues
}

// Takes the number that kMoves begins off the text; 0: there is none.
uint64_t take_moves(std::string& said) {
  const size_t end = said.find('\n');
  if (said.empty() || said.front() != kMoves || end == std::string::npos) return 0;
  const uint64_t bytes = strtoull(said.c_str() + 1, nullptr, 10);
  said.erase(0, end + 1);
  return bytes;
}

// What the background process says until it closes the pipe.
std::string listen_to_holder(const Fd& pipe, const std::function<void(uint64_t)>& progress) {
  std::string said;
  uint64_t moves = 0;
  char buffer[512];
  for (;;) {
    pollfd event{pipe.get(), POLLIN, 0};
    if (poll(&event, 1, moves > 0 && progress ? kProgressMs : -1) == 0) {
      progress(moves);
      continue;
    }
    const ssize_t got = read(pipe.get(), buffer, sizeof(buffer));
    if (got <= 0) return said;
    said.append(buffer, static_cast<size_t>(got));
    moves += take_moves(said);
  }
}

}  // namespace

Status may_end_after(Result<uint64_t> compared, const char* state, pid_t pid) {
  if (compared.ok()) return {};
  return std::move(compared).error().within(
      formatted("process {} stays {}, and continues if process {} is ended", pid, state, getpid()));
}

int hold_in_background(pid_t pid, Purpose& purpose, const std::function<void(uint64_t)>& progress) {
  auto pipe = Pipe::create();
  if (!pipe.ok()) return complain(2, pipe.error().message());
  const pid_t child = fork();
  if (child < 0) return complain(2, Error::system("fork").message());
  if (child == 0) _exit(hold(pid, purpose, std::move(pipe->write)));
  pipe->write.reset();
  const std::string said = listen_to_holder(pipe->read, progress);
  if (said.empty()) return complain(2, "the process that was to hold the pause has died");
  if (said.front() != kPaused) return complain(1, said);
  printf("%s\n", said.c_str() + 1);
  return 0;
}

Result<std::string> ask_holder(pid_t pid, Request request, const std::function<void()>& meanwhile) {
  const sockaddr_un address = TRY(address_of(pid));
  const Fd socket = make_socket();
  if (connect_to(socket, address) != 0 || !may_ask(socket.get()))
    return Error::of(ESRCH, "process {} is neither frozen nor suspended", pid);
  const char letter = static_cast<char>(request);
  if (send(socket.get(), &letter, 1, MSG_NOSIGNAL) != 1) return Error::system("send");
  std::string said;
  char buffer[512];
  for (;;) {
    pollfd event{socket.get(), POLLIN, 0};
    if (poll(&event, 1, meanwhile ? kProgressMs : -1) == 0) {
      meanwhile();
      continue;
    }
    const ssize_t got = read(socket.get(), buffer, sizeof(buffer));
    if (got < 0) return Error::system("read");
    if (got == 0) return said;
    said.append(buffer, static_cast<size_t>(got));
  }
}

int status_of(const Result<std::string>& answer) {
  if (!answer.ok())
    return complain(answer.error().code() == ESRCH ? 1 : 2, answer.error().message());
  return answer->empty() ? 0 : complain(1, *answer);
}

}  // namespace amdgpu_criu::tool
