// SPDX-License-Identifier: GPL-2.0
#include "base/background.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "base/bounded.h"
#include "base/log.h"

namespace amdgpu_criu {
namespace {

constexpr int kLookMs = 50;

struct Report {
  int code;  // 0: done
  std::array<char, 4000> text;
};
static_assert(sizeof(Report) <= PIPE_BUF);  // written and read atomically

struct Pipe {
  Fd read, write;
  static Result<Pipe> create() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Error::system("cannot make a pipe");
    return Pipe{Fd(ends[0]), Fd(ends[1])};
  }
};

Result<Pidfd> open_process(pid_t pid) {
  auto process = Pidfd::open(pid);
  if (!process.valid()) return Error::system("cannot watch process {}", pid);
  return process;
}

void send(const Fd& to, int code, const std::string& text) {
  Report report{code, {}};
  text.copy(report.text.data(), report.text.size() - 1);
  (void)!write(to.get(), &report, sizeof(report));
}

// Sets up the child before anything else.
class Child {
 public:
  Child(pid_t main, const Background::Role& role, Fd result, Fd stop)
      : main_(main), role_(role), result_(std::move(result)), stop_(std::move(stop)) {}

  // An exception would unwind into the main process's code, in this process.
  [[noreturn]] void run(const Background::Work& work) noexcept {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    prctl(PR_SET_NAME, "amdgpu-criu");
    auto process = open_process(main_);
    if (!process.ok() || getppid() != main_) _exit(1);
    std::jthread worker([&] {
      const Status status = without_exceptions([&]() -> Status {
        work([&](const Error& error) { fail(error); });
        return {};
      });
      if (!status.ok()) fail(status.error());
      send(result_, 0, "");
    });
    watch(*process);
  }

 private:
  [[noreturn]] void fail(const Error& error) {
    if (role_.ends_on_error) log_error("in the background: {}", error.message());
    send(result_, error.code(), error.message());
    if (role_.ends_on_error) _exit(1);
    while (true) pause();
  }

  // Waits until the main process ends this one or dies.
  [[noreturn]] void watch(const Pidfd& process) {
    std::unique_ptr<Background::Watch> watch;
    if (role_.watch) guarded([&] { watch = role_.watch(main_); });
    pollfd files[] = {{stop_.get(), POLLIN, 0}, {process.fd().get(), POLLIN, 0}};
    while (poll(files, 2, watch ? kLookMs : -1) <= 0)
      if (watch) guarded([&] { watch->look(); });
    if (files[0].revents & POLLIN) _exit(0);
    if (watch) guarded([&] { watch->main_died(); });
    _exit(1);
  }

  // The process keeps watching after an exception.
  template <typename Body>
  static void guarded(const Body& body) {
    const Status status = without_exceptions([&] {
      body();
      return Status();
    });
    if (!status.ok()) log_error("in the background: {}", status.error().message());
  }

  pid_t main_;
  const Background::Role& role_;
  Fd result_;
  Fd stop_;
};

}  // namespace

Result<std::unique_ptr<Background>> Background::start(const Role& role, const Work& work) {
  Pipe result = TRY(Pipe::create()), stop = TRY(Pipe::create());
  const pid_t main = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Error::system("cannot make a process for the background");
  if (pid == 0) Child(main, role, std::move(result.write), std::move(stop.read)).run(work);
  // When the child ends, the pipe has no writer: processes that CRIU forks later have no copy.
  result.write.reset();
  Pidfd process = TRY(open_process(pid));
  return std::unique_ptr<Background>(new Background(role.verb, pid, std::move(process),
                                                    std::move(result.read), std::move(stop.write)));
}

bool Background::is_finished(std::chrono::milliseconds patience) const {
  pollfd result{result_.get(), POLLIN, 0};
  return outcome_ || poll(&result, 1, static_cast<int>(patience.count())) > 0;
}

Status Background::finish() {
  if (!outcome_) outcome_ = receive();
  return *outcome_;
}

void Background::release() {
  if (std::exchange(released_, true)) return;
  const char byte = 0;
  (void)!write(stop_.get(), &byte, 1);
  reap(pid_);
}

Status Background::receive() const {
  Report report;
  ssize_t size;
  do {
    size = read(result_.get(), &report, sizeof(report));
  } while (size < 0 && errno == EINTR);
  if (size != sizeof(report))
    return Error::of(ECHILD, "the process that {} GPU memory in the background has died", verb_);
  report.text.back() = 0;
  if (report.code) return Error::of(report.code, "in the background: {}", report.text.data());
  return {};
}

void Background::reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

Background::~Background() {
  if (released_) return;
  // CRIU's handler would mistake its exit for that of a task.
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  process_.signal(SIGKILL);
  // It ends later if its disk does not answer.
  (void)run_until(
      [pid = pid_]() -> Status {
        reap(pid);
        return {};
      },
      within(kPatienceForDisk));
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace amdgpu_criu
