// SPDX-License-Identifier: GPL-2.0
#include "dump/interruption.h"

#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>

#include "image/set.h"

namespace amdgpu_criu::dump {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};
// A signal that arrives before the system call interrupts nothing.
constexpr std::chrono::milliseconds kAgain{100};

// 0: no signal was received.
std::atomic<int> caught_signal;
std::atomic<unsigned> windows;  // number of CaughtSignals objects
std::atomic<const DoomedImages*> doomed;
std::atomic<const UnpausedBySignals*> paused;
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler
struct sigaction before[std::size(kSignals)];
bool installed = false;

void take(int number) {
  const int error = errno;
  if (windows > 0) {
    caught_signal = number;
  } else {
    if (const UnpausedBySignals* all = paused) all->unpause();
    if (const DoomedImages* images = doomed) images->remove();
    signal(number, SIG_DFL);
    raise(number);  // delivered when this handler returns
  }
  errno = error;
}

// Without SA_RESTART: blocking calls are interrupted. CRIU fails when it sees that a child was
// killed, so the handler runs to its end before.
void install() {
  if (std::exchange(installed, true)) return;
  struct sigaction action{};
  action.sa_handler = take;
  sigaddset(&action.sa_mask, SIGCHLD);
  for (size_t i = 0; i < std::size(kSignals); i++) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

void uninstall() {
  if (windows > 0 || doomed || paused || !std::exchange(installed, false)) return;
  for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], &before[i], nullptr);
}

}  // namespace

Status Interruption::check_signals() {
  if (const int number = caught_signal)
    return Error::of(EINTR, "the dump was aborted by {}", number == SIGTERM ? "SIGTERM" : "SIGINT");
  return {};
}

Status Interruption::check() const {
  TRY(check_signals());
  if (start_ && timeout_.count() > 0 && Clock::now() - *start_ > timeout_)
    return Error::of(
        ETIME, "the dump was aborted: its GPU part took longer than the {} s of amdgpu.timeout",
        timeout_.count());
  if (stopped_) return Error(ECANCELED, "stopped because another GPU could not be saved");
  return {};
}

// A process without a handler ignores SIGURG, and CRIU does not use it.
Interruption::Alarm::Alarm(const Interruption& interruption) {
  if (!interruption.start_ || interruption.timeout_.count() == 0) return;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGURG;
  event._sigev_un._tid = gettid();
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return;
  timer_ = timer;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGURG, &action, &before_);
  using std::chrono::nanoseconds;
  const nanoseconds left = std::max<nanoseconds>(
      *interruption.start_ + interruption.timeout_ - Clock::now(), std::chrono::milliseconds(1));
  itimerspec times{};
  times.it_value = {left / std::chrono::seconds(1), (left % std::chrono::seconds(1)).count()};
  times.it_interval.tv_nsec = nanoseconds(kAgain).count();
  timer_settime(timer, 0, &times, nullptr);
}

Interruption::Alarm::~Alarm() {
  if (!timer_) return;
  timer_delete(*timer_);
  sigaction(SIGURG, &before_, nullptr);
}

CaughtSignals::CaughtSignals() {
  if (windows == 0) caught_signal = 0;
  windows++;
  install();
}

CaughtSignals::~CaughtSignals() {
  windows--;
  uninstall();
}

UnpausedBySignals::UnpausedBySignals(std::function<void()> unpause) : unpause_(std::move(unpause)) {
  paused = this;
  install();
}

UnpausedBySignals::~UnpausedBySignals() {
  paused = nullptr;
  uninstall();
}

void UnpausedBySignals::unpause() const {
  if (getpid() == owner_) unpause_();
}

Result<std::unique_ptr<DoomedImages>> DoomedImages::create(int directory,
                                                           const std::vector<pid_t>& processes) {
  // With a position of its own.
  std::unique_ptr<DoomedImages> images(
      new DoomedImages(TRY(Fd::openat(directory, ".", O_RDONLY | O_DIRECTORY))));
  for (const pid_t pid : processes) {
    images->processes_.push_back(Pidfd::open(pid));
    if (!images->processes_.back().valid()) return Error::system("cannot watch process {}", pid);
  }
  doomed = images.get();
  install();
  return images;
}

DoomedImages::~DoomedImages() {
  const DoomedImages* self = this;
  if (doomed.compare_exchange_strong(self, nullptr)) uninstall();
}

void DoomedImages::remove() const {
  if (getpid() != owner_) return;
  if (const pid_t writer = writer_) {
    syscall(SYS_kill, writer, SIGKILL);  // kill() would be the tests' replacement
    // Its disk may not answer. Removing the files would wait for it, too.
    constexpr std::chrono::milliseconds kNap{10};
    const timespec nap{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kNap).count()};
    for (auto left = kPatienceForDisk; waitpid(writer, nullptr, WNOHANG) == 0; left -= kNap) {
      if (left.count() <= 0) return;
      nanosleep(&nap, nullptr);
    }
  }
  for (const Pidfd& process : processes_) {
    pollfd ended{process.fd().get(), POLLIN, 0};
    if (poll(&ended, 1, 0) != 0) return;
  }
  alignas(dirent64) char buffer[4096];
  (void)lseek(directory_.get(), 0, SEEK_SET);
  for (;;) {
    const long size = syscall(SYS_getdents64, directory_.get(), buffer, sizeof(buffer));
    if (size <= 0) return;
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      if (image::kind_of(entry->d_name)) (void)unlinkat(directory_.get(), entry->d_name, 0);
      at += entry->d_reclen;
    }
  }
}

}  // namespace amdgpu_criu::dump
