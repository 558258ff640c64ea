// SPDX-License-Identifier: GPL-2.0
#include "base/background.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "base/ending_process.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/pipe.h"

namespace amdgpu_criu {
namespace {

constexpr int kLookMs = 50;

// False: the pipe has no writer any more.
template <typename T>
bool read_object(const Fd& from, T& object) {
  ssize_t size;
  do {
    size = read(from.get(), &object, sizeof(object));
  } while (size < 0 && errno == EINTR);
  return size == sizeof(object);
}

// Blocks SIGCHLD, so that CRIU's handler does not see the end of a child of ours.
class WithoutSigchld {
 public:
  WithoutSigchld() {
    sigemptyset(&child_);
    sigaddset(&child_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_, &before_);
  }
  WithoutSigchld(const WithoutSigchld&) = delete;
  WithoutSigchld& operator=(const WithoutSigchld&) = delete;
  ~WithoutSigchld() {
    constexpr timespec kNow{};
    sigtimedwait(&child_, nullptr, &kNow);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t child_, before_;
};

// Runs `body` in a process that is no child of this one, and that this one watches: it could
// otherwise end before its descriptor is open, or work although nothing ends it. `body` does not
// return.
template <typename Body>
Result<Pidfd> fork_grandchild(const Body& body) {
  Pipe number = TRY(Pipe::create()), watched = TRY(Pipe::create());
  const WithoutSigchld guard;
  const pid_t between = fork_helper();
  if (between < 0) return Error::system("cannot make a process for the background");
  if (between == 0) {
    const pid_t pid = fork_helper();
    if (pid == 0) {
      watched.write.reset();
      char byte;
      if (!read_object(watched.read, byte)) _exit(1);  // the caller does not watch it, or has died
      body();
    }
    (void)!write(number.write.get(), &pid, sizeof(pid));
    _exit(0);
  }
  number.write.reset();
  pid_t pid = -1;
  auto process = read_object(number.read, pid) && pid > 0
                     ? Pidfd::open(pid)
                     : Result<Pidfd>(Error(EAGAIN, "cannot make a process for the background"));
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) continue;
  if (process.ok()) (void)!write(watched.write.get(), "", 1);
  return process;
}

}  // namespace

struct Background::Report {
  static constexpr int kDone = 0, kReady = -1;
  int code;  // one of these, or an errno
  std::array<char, 4000> text;

  static void send(const Fd& to, int code, const std::string& text = "") {
    static_assert(sizeof(Report) <= PIPE_BUF);  // written and read atomically
    Report report{code, {}};
    text.copy(report.text.data(), report.text.size() - 1);
    (void)!write(to.get(), &report, sizeof(report));
  }
};

// Sets up the child before anything else.
class Background::Child {
 public:
  Child(pid_t main, Pidfd process, const Background::Role& role, Fd result, Fd stop)
      : main_(main),
        process_(std::move(process)),
        role_(role),
        result_(std::move(result)),
        stop_(std::move(stop)) {}

  // An exception would unwind into the main process's code, in this process.
  [[noreturn]] void run(const Background::Work& work) noexcept {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    prctl(PR_SET_NAME, kHelperName);
    std::jthread worker;
    if (work) {
      const Status started = without_exceptions([&] {
        worker = start_helper_thread<std::jthread>([&] { do_work(work); });
        return Status();
      });
      if (!started.ok()) fail(started.error());
    }
    watch();
  }

 private:
  void do_work(const Background::Work& work) {
    const Status status = without_exceptions([&]() -> Status {
      work({[&](const Error& error) { fail(error); },
            [&] { Report::send(result_, Report::kReady); }});
      return {};
    });
    if (!status.ok()) fail(status.error());
    Report::send(result_, Report::kDone);
  }

  [[noreturn]] void fail(const Error& error) {
    Report::send(result_, error.code(), error.message());
    _exit(1);
  }

  // Waits until the main process ends this one or dies.
  [[noreturn]] void watch() {
    std::unique_ptr<Background::Watch> watch;
    if (role_.watch) guarded([&] { watch = role_.watch(main_); });
    pollfd files[] = {{stop_.get(), POLLIN, 0}, {process_.fd().get(), POLLIN, 0}};
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
  Pidfd process_;  // main's
  const Background::Role& role_;
  Fd result_;
  Fd stop_;
};

Result<std::unique_ptr<Background>> Background::start(const Role& role, const Work& work) {
  Pipe result = TRY(Pipe::create()), stop = TRY(Pipe::create());
  const pid_t main = getpid();
  Pidfd main_process = TRY(Pidfd::open(main));
  Pidfd process = TRY(fork_grandchild([&] {
    // When this process ends, the pipe has no writer.
    Child(main, std::move(main_process), role, std::move(result.write), std::move(stop.read))
        .run(work);
  }));
  // Processes that CRIU forks later have no copy.
  result.write.reset();
  std::unique_ptr<Background> started(
      new Background(role.verb, std::move(process), std::move(result.read), std::move(stop.write)));
  if (role.announces_threads) TRY(started->wait_until_ready());
  return started;
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
  (void)wait_for_end(process_);
}

Result<Background::Report> Background::read_report() const {
  Report report;
  if (!read_object(result_, report))
    return Error::of(ECHILD, "the process that {} in the background has died", verb_);
  report.text.back() = 0;
  if (report.code > 0) return Error::of(report.code, "in the background: {}", report.text.data());
  return report;
}

Status Background::wait_until_ready() const {
  TRY(read_report());
  return {};
}

Status Background::receive() const {
  while (TRY(read_report()).code != Report::kDone) continue;
  return {};
}

bool Background::kill() {
  released_ = true;
  process_.signal(SIGKILL);
  return wait_for_end(process_);
}

Background::~Background() {
  if (!released_) kill();
}

}  // namespace amdgpu_criu
