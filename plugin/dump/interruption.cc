// SPDX-License-Identifier: GPL-2.0
#include "dump/interruption.h"

namespace amdgpu_criu::dump {
namespace {

// 0: none came.
std::atomic<int> caught_signal;
static_assert(std::atomic<int>::is_always_lock_free);  // for the handler

void note_signal(int number) { caught_signal = number; }

}  // namespace

Status Interruption::check() const {
  if (const int number = caught_signal)
    return Error::of(EINTR, "the dump is given up because of {}",
                     number == SIGTERM ? "SIGTERM" : "SIGINT");
  if (start_ && timeout_.count() > 0 && Clock::now() - *start_ > timeout_)
    return Error::of(
        ETIME, "the dump is given up: its GPU part took longer than the {} s of amdgpu.timeout",
        timeout_.count());
  if (stopped_) return Error(ECANCELED, "stopped because another GPU could not be saved");
  return {};
}

// Without SA_RESTART, so that blocking calls are interrupted.
CaughtSignals::CaughtSignals() {
  caught_signal = 0;
  struct sigaction note{};
  note.sa_handler = note_signal;
  sigaction(SIGTERM, &note, &terminate_);
  sigaction(SIGINT, &note, &interrupt_);
}

CaughtSignals::~CaughtSignals() {
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGINT, &interrupt_, nullptr);
}

}  // namespace amdgpu_criu::dump
