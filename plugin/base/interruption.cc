// SPDX-License-Identifier: GPL-2.0
#include "base/interruption.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "base/ending_process.h"

namespace amdgpu_criu {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
// Pending ones count, because CRIU blocks signals in a restore.
constexpr int kPending[] = {SIGTERM, SIGINT};
// A signal that arrives before the system call interrupts nothing.
constexpr std::chrono::milliseconds kAgain{100};

// 0: no signal was received.
std::atomic<int> caught_signal;
std::atomic<unsigned> windows;  // number of CaughtSignals objects
std::atomic<const AtSignal*> actions[2];
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler
struct sigaction before[std::size(kSignals)];
bool installed = false;

void take(int number) {
  const int error = errno;
  if (windows > 0) {
    caught_signal = number;
  } else {
    for (const auto& action : actions)
      if (const AtSignal* one = action) one->act();
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
  if (windows > 0 || actions[0] || actions[1] || !std::exchange(installed, false)) return;
  for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], &before[i], nullptr);
}

constexpr uint64_t bit_of(int number) { return 1ull << (number - 1); }

// Sets of signals have bit N-1 for signal N.
uint64_t received_signals() {
  const int caught = caught_signal;
  uint64_t result = caught ? bit_of(caught) : 0;
  sigset_t pending;
  sigpending(&pending);
  for (const int number : kPending) {
    struct sigaction action{};
    sigaction(number, nullptr, &action);
    if (sigismember(&pending, number) == 1 && action.sa_handler != SIG_IGN)
      result |= bit_of(number);
  }
  return result;
}

uint64_t received_signals_of(pid_t pid) {
  uint64_t counted = 0;
  for (const int number : kPending) counted |= bit_of(number);
  return pending_signals(pid) & counted;
}

Status aborted_by(uint64_t signals, const char* operation) {
  for (const int number : kSignals)
    if (signals & bit_of(number))
      return Error::of(EINTR, "the {} was aborted by SIG{}", operation, sigabbrev_np(number));
  return {};
}

}  // namespace

Interruption Interruption::anew() const {
  Interruption other(timeout_, operation_);
  other.ignored_ = received_signals();
  other.begin();
  return other;
}

Status Interruption::check_signals(const char* operation) {
  return aborted_by(received_signals(), operation);
}

Status Interruption::check_signals_of(pid_t pid, const char* operation) {
  return aborted_by(received_signals_of(pid), operation);
}

std::optional<std::chrono::milliseconds> Interruption::time_left() const {
  if (!start_ || timeout_.count() == 0) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(*start_ + timeout_ - Clock::now());
}

Status Interruption::check_deadline(std::chrono::milliseconds grace) const {
  const auto left = time_left();
  if (!left || *left + grace >= std::chrono::milliseconds(0)) return {};
  return Error::of(ETIME,
                   "the {} was aborted: its GPU part took longer than the {} s of amdgpu.timeout",
                   operation_, timeout_.count());
}

Status Interruption::check() const {
  TRY(aborted_by(received_signals() & ~ignored_, operation_));
  TRY(check_deadline());
  return {};
}

// A process without a handler ignores SIGURG, and CRIU does not use it.
Result<Interruption::Alarm> Interruption::Alarm::start(
    const Interruption& interruption, std::optional<std::chrono::milliseconds> soon) {
  Alarm alarm;
  auto left = interruption.time_left();
  if (soon) left = std::min(left.value_or(*soon), *soon);
  if (!left) return alarm;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGURG;
  event._sigev_un._tid = gettid();
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
    return Error::system("cannot make a timer for amdgpu.timeout");
  alarm.timer_ = timer;
  struct sigaction action{};
  action.sa_handler = [](int) {};
  sigaction(SIGURG, &action, &alarm.before_);
  using std::chrono::nanoseconds;
  const nanoseconds first = std::max<nanoseconds>(*left, std::chrono::milliseconds(1));
  itimerspec times{};
  times.it_value = {first / std::chrono::seconds(1), (first % std::chrono::seconds(1)).count()};
  times.it_interval.tv_nsec = nanoseconds(kAgain).count();
  if (timer_settime(timer, 0, &times, nullptr) != 0)
    return Error::system("cannot start the timer of amdgpu.timeout");
  return alarm;
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

AtSignal::AtSignal(std::function<void()> action) : action_(std::move(action)), owner_(getpid()) {
  actions[actions[0] ? 1 : 0] = this;
  install();
}

AtSignal::~AtSignal() {
  for (auto& action : actions) {
    const AtSignal* self = this;
    action.compare_exchange_strong(self, nullptr);
  }
  uninstall();
}

void AtSignal::act() const {
  if (getpid() == owner_) action_();
}

}  // namespace amdgpu_criu
