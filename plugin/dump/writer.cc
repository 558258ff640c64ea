// SPDX-License-Identifier: GPL-2.0
#include "dump/writer.h"

namespace amdgpu_criu::dump {
namespace {

// The interval of checks for a signal to CRIU.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

Status Writer::start(const Background::Work& work) {
  process_ = TRY(Background::start({"saves"}, work));
  return {};
}

Status Writer::finish() {
  if (!process_) return {};
  while (!process_->is_finished(kLook)) TRY(interruption_.check());
  const Status status = process_->finish();
  process_.reset();
  return status;
}

bool Writer::is_finished() const {
  return process_ && process_->is_finished(std::chrono::milliseconds(0));
}

bool Writer::give_up() {
  const bool ended = !process_ || process_->kill();
  process_.reset();
  return ended;
}

}  // namespace amdgpu_criu::dump
