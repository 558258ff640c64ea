// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu freeze` and `thaw`.
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "dump/kept_hashes.h"
#include "tool/commands.h"
#include "tool/holder.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

class Freeze : public Purpose {
 public:
  Status begin(kernel::Api& api, const host::Host& host, dump::Tree& tree,
               const std::function<void(uint64_t)>&) override {
    const auto vram = dump::vram_of(api, host, tree);
    if (vram.ok())
      hashes_ = dump::KeptHashes::compute({api, host, tree, gpu::make_sdma_engine}, *vram);
    else
      log_info("memory is not compared at the thaw: {}", vram.error().message());
    return {};
  }
  std::string announce(pid_t pid, pid_t holder) const override {
    return formatted(
        "the GPU work of process {} is paused; process {} holds it, until amdgpu-criu thaw", pid,
        holder);
  }
  std::string state(pid_t holder) const override {
    return Json{{"state", "frozen"}, {"holder", holder}, {"hashed", hashes_.bytes()}}.dump();
  }
  Status may_end(pid_t pid, Request request, kernel::Api& api, const host::Host& host,
                 dump::Tree& tree) const override {
    if (request != Request::kThaw)
      return Error::of(EBADFD, "process {} is frozen, not suspended: use amdgpu-criu thaw", pid);
    return may_end_after(hashes_.compare({api, host, tree, gpu::make_sdma_engine}), "frozen", pid);
  }

 private:
  dump::KeptHashes hashes_;
};

}  // namespace

int freeze(pid_t pid) {
  Freeze freeze;
  return hold_in_background(pid, freeze);
}

int thaw(pid_t pid) { return status_of(ask_holder(pid, Request::kThaw)); }

}  // namespace amdgpu_criu::tool
