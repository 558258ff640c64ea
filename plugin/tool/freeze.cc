// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu freeze` and `thaw`.
#include <nlohmann/json.hpp>

#include "tool/commands.h"
#include "tool/holder.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

class Freeze : public Purpose {
 public:
  std::string announce(pid_t pid, pid_t holder) const override {
    return formatted(
        "the GPU work of process {} is paused; process {} holds it, until amdgpu-criu thaw", pid,
        holder);
  }
  std::string state(pid_t holder) const override {
    return Json{{"state", "frozen"}, {"holder", holder}}.dump();
  }
  Status may_end(pid_t pid, Request request, const host::Host&) const override {
    if (request == Request::kThaw) return {};
    return Error::of(EBADFD, "process {} is frozen, not suspended: use amdgpu-criu thaw", pid);
  }
};

}  // namespace

int freeze(pid_t pid) {
  Freeze freeze;
  return hold_in_background(pid, freeze);
}

int thaw(pid_t pid) { return status_of(ask_holder(pid, Request::kThaw)); }

}  // namespace amdgpu_criu::tool
