// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu suspend`, `resume` and `state`.
#include "dump/suspension.h"

#include <nlohmann/json.hpp>

#include "tool/commands.h"
#include "tool/holder.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

class Suspend : public Purpose {
 public:
  Status begin(kernel::Api& api, const host::Host& host, dump::Tree& tree,
               const std::function<void(uint64_t)>& moves) override {
    suspension_ = TRY(dump::Suspension::suspend(api, host, tree, gpu::make_sdma_engine, moves));
    return {};
  }
  std::string announce(pid_t pid, pid_t holder) const override {
    return formatted(
        "the GPU work of process {} is paused, and {} MiB of its VRAM are in host memory; process "
        "{} holds it, until amdgpu-criu resume",
        pid, suspension_.bytes() >> 20, holder);
  }
  std::string state(pid_t holder) const override {
    return Json{{"state", "suspended"},
                {"holder", holder},
                {"bytes", suspension_.bytes()},
                {"kept", suspension_.kept()},
                {"hashed", suspension_.hashed()}}
        .dump();
  }
  Status may_end(pid_t pid, Request request, kernel::Api& api, const host::Host& host,
                 dump::Tree& tree) const override {
    if (request != Request::kResume)
      return Error::of(EBADFD, "process {} is suspended, not frozen: use amdgpu-criu resume", pid);
    Status room = suspension_.check_room(host);
    if (!room.ok())
      return std::move(room).error().within(formatted("process {} stays suspended", pid));
    return may_end_after(suspension_.compare(api, host, tree, gpu::make_sdma_engine), "suspended",
                         pid);
  }

 private:
  dump::Suspension suspension_;
};

// Shows how the VRAM in use changes, by which others may change as well.
class Movement {
 public:
  explicit Movement(const char* what) : what_(what) {}
  void show(uint64_t bytes) {
    const uint64_t now = used();
    if (!line_) {
      line_.emplace(what_, bytes);
      first_ = now;
    }
    const uint64_t moved = now > first_ ? now - first_ : first_ - now;
    line_->add(moved - std::min(moved, shown_));
    shown_ = std::max(moved, shown_);
  }

 private:
  uint64_t used() const {
    uint64_t sum = 0;
    const auto gpus = host_.gpus();
    for (const topology::Gpu& gpu : gpus.ok() ? *gpus : std::vector<topology::Gpu>())
      sum += host_.vram_used(gpu.render_minor).value_or(0);
    return sum;
  }

  const char* what_;
  host::Host host_ = host::Host::create();
  std::optional<ProgressLine> line_;
  uint64_t first_ = 0;
  uint64_t shown_ = 0;
};

// "running" for a process without a holder.
Result<Json> state_of(pid_t pid) {
  const auto answer = ask_holder(pid, Request::kState);
  if (!answer.ok() && answer.error().code() != ESRCH) return answer.error();
  if (answer.ok() && !answer->empty()) return Json::parse(*answer);
  // Also that of another user.
  if (kill(pid, 0) != 0 && errno == ESRCH) return Error::of(ESRCH, "there is no process {}", pid);
  return Json{{"state", "running"}};
}

}  // namespace

int suspend(pid_t pid) {
  Suspend suspend;
  Movement movement("suspending");
  return hold_in_background(pid, suspend, [&](uint64_t bytes) { movement.show(bytes); });
}

int resume(pid_t pid) {
  const auto state = state_of(pid);
  if (!state.ok()) return complain(1, state.error().message());
  Movement movement("resuming");
  const uint64_t bytes = state->value("bytes", uint64_t{0});
  return status_of(ask_holder(pid, Request::kResume, [&] { movement.show(bytes); }));
}

int state(pid_t pid, Format format) {
  const auto found = state_of(pid);
  if (!found.ok()) return complain(found.error().code() == ESRCH ? 1 : 2, found.error().message());
  if (format == Format::kJson) return print_json(*found), 0;
  const std::string name = found->value("state", "");
  if (name == "running")
    printf("%s\n", name.c_str());
  else if (name == "frozen")
    printf("frozen, by process %d\n", found->value("holder", 0));
  else
    printf("%s, %llu MiB of VRAM in host memory, by process %d\n", name.c_str(),
           static_cast<unsigned long long>(found->value("bytes", uint64_t{0}) >> 20),
           found->value("holder", 0));
  return 0;
}

}  // namespace amdgpu_criu::tool
