// SPDX-License-Identifier: GPL-2.0
#include "options/faults.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <new>
#include <thread>

#include "base/log.h"

namespace amdgpu_criu::options {
namespace {

struct Code {
  const char* name;
  int value;
};
constexpr Code kCodes[] = {{"EIO", EIO},       {"ENOMEM", ENOMEM}, {"ENOSPC", ENOSPC},
                           {"EFAULT", EFAULT}, {"EINVAL", EINVAL}, {"ENODEV", ENODEV},
                           {"EPERM", EPERM},   {"EBUSY", EBUSY},   {"ETIME", ETIME}};

// Long enough for a person or a script to act meanwhile.
constexpr std::chrono::seconds kNap{5};

// kill() would be the tests' replacement.
void signal_process(pid_t pid, int number) { syscall(SYS_kill, pid, number); }

}  // namespace

Result<Faults> Faults::create(const std::string& text) {
  const Error wrong = Error::of(
      EINVAL, "option test-fail: '{}' is not EVENT:NUMBER:ACTION, as criu-amdgpu(1) describes it",
      text);
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == text.npos || second == text.npos) return wrong;
  Plan plan;
  plan.event = text.substr(0, first);
  auto [rest, error] = std::from_chars(text.data() + first + 1, text.data() + second, plan.number);
  if (plan.event.empty() || error != std::errc{} || rest != text.data() + second) return wrong;
  const std::string action = text.substr(second + 1);
  const auto code = std::ranges::find(kCodes, action, &Code::name);
  if (action == "kill")
    plan.action = Action::kKill;
  else if (action == "kill-criu")
    plan.action = Action::kKillCriu;
  else if (action == "term")
    plan.action = Action::kTerminate;
  else if (action == "sleep")
    plan.action = Action::kSleep;
  else if (code == std::end(kCodes))
    return wrong;
  else
    plan.code = code->value;
  plan.criu = getpid();
  Faults faults;
  faults.count_ = TRY(Mapping::map(sizeof(std::atomic<unsigned>), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS));
  new (faults.count_.data()) std::atomic<unsigned>(0);
  faults.plan_ = std::move(plan);
  return faults;
}

Status Faults::at(std::string_view kind, std::string_view name) const {
  if (!plan_) return {};
  log_info("TEST SWITCH: event {} {}", kind, name);
  if (plan_->event != kind && plan_->event != name) return {};
  auto& count = *std::launder(reinterpret_cast<std::atomic<unsigned>*>(count_.data()));
  return ++count == plan_->number ? act(*plan_, name) : Status();
}

Status Faults::act(const Plan& plan, std::string_view name) {
  log_warning("TEST SWITCH: fault at {} number {}", plan.event, plan.number);
  switch (plan.action) {
    case Action::kError:
      return Error::of(plan.code, "injected failure of {}: {}", name, strerror(plan.code));
    case Action::kKill:
      signal_process(getpid(), SIGKILL);
      break;
    case Action::kKillCriu:
      signal_process(plan.criu, SIGKILL);
      break;
    case Action::kTerminate:
      signal_process(plan.criu, SIGTERM);
      break;
    case Action::kSleep:
      std::this_thread::sleep_for(kNap);
      break;
  }
  return {};
}

}  // namespace amdgpu_criu::options
