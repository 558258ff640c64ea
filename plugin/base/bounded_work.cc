// SPDX-License-Identifier: GPL-2.0
#include "base/bounded_work.h"

namespace amdgpu_criu {
namespace {

// The interval of checks for a signal to CRIU.
constexpr std::chrono::milliseconds kLook{100};

class AtDeath final : public Background::Watch {
 public:
  explicit AtDeath(const std::function<void()>& action) : action_(action) {}
  void look() override {}
  void main_died() override { action_(); }

 private:
  const std::function<void()>& action_;
};

}  // namespace

Status BoundedWork::start(const Background::Work& work, const std::function<void()>& at_death) {
  Background::Role role{verb_};
  if (at_death) role.watch = [&](pid_t) { return std::make_unique<AtDeath>(at_death); };
  process_ = TRY(Background::start(role, work));
  return {};
}

Status BoundedWork::finish() {
  if (!process_) return {};
  while (!process_->is_finished(kLook)) TRY(interruption_.check());
  const Status status = process_->finish();
  process_.reset();
  return status;
}

bool BoundedWork::is_finished() const {
  return process_ && process_->is_finished(std::chrono::milliseconds(0));
}

bool BoundedWork::give_up() {
  const bool ended = !process_ || process_->kill();
  process_.reset();
  return ended;
}

}  // namespace amdgpu_criu
