// SPDX-License-Identifier: GPL-2.0
#include "dump/suspension.h"

#include <algorithm>
#include <fstream>
#include <numeric>

namespace amdgpu_criu::dump {
namespace {

constexpr unsigned kMebibyteShift = 20;

uint64_t sum(const std::vector<VramOfGpu>& vram) {
  return std::accumulate(vram.begin(), vram.end(), uint64_t{0},
                         [](uint64_t all, const VramOfGpu& one) { return all + one.bytes(); });
}

// Finds out once whether a process has ended.
class Living {
 public:
  bool has_any(const std::set<pid_t>& processes) {
    return std::ranges::any_of(processes, [this](pid_t pid) {
      const auto [known, first] = lives_.try_emplace(pid);
      if (first) known->second = !host::has_ended(pid);
      return known->second;
    });
  }
  // Of BOs that a process still has.
  uint64_t bytes_of(const VramOfGpu& vram) {
    uint64_t bytes = 0;
    for (const kernel::Bo& bo : vram.bos)
      if (has_any(vram.owners.at(bo.object_id))) bytes += bo.size;
    return bytes;
  }

 private:
  std::map<pid_t, bool> lives_;
};

Status check_kernel(kernel::Api& api, Tree& tree) {
  const auto clients = tree.paused_clients();
  if (clients.empty()) return {};
  if (TRY(api.query(clients.front()->node())).features & AMDGPU_CRIU_FEATURE_EVICT) return {};
  return Error(EOPNOTSUPP,
               "the amdgpu module of this kernel cannot give back the VRAM of a paused process: "
               "load a later one of the amdgpu-criu series, or use amdgpu-criu freeze");
}

// The GPU of another process would work on memory that moves to and fro.
Status check_sharing(kernel::Api& api, const host::Host& host, Tree& tree) {
  const auto outside = TRY(outside_of(api, host, tree));
  if (outside.num_bos == 0) return {};
  const std::string who =
      outside.pid != 0 ? formatted("process {} ({})", outside.pid, host::comm_of(outside.pid))
                       : std::string("a process of another pid namespace");
  return Error::of(EOPNOTSUPP,
                   "{} shares {} BOs of GPU memory with process {} and would not be suspended: "
                   "suspend a common ancestor of both, or end it",
                   who, outside.num_bos, outside.paused_pid);
}

}  // namespace

Result<uint64_t> available_host_memory(const std::string& meminfo) {
  std::ifstream in(meminfo);
  uint64_t kibibytes = 0;
  for (std::string line; std::getline(in, line);)
    if (sscanf(line.c_str(), "MemAvailable: %lu kB", &kibibytes) == 1) return kibibytes << 10;
  return Error::of(ENOENT, "{} does not report MemAvailable", meminfo);
}

Result<Suspension> Suspension::suspend(kernel::Api& api, const host::Host& host, Tree& tree,
                                       gpu::EngineFactory make_engine,
                                       const std::function<void(uint64_t)>& begin) {
  Suspension result;
  TRY(check_kernel(api, tree));
  TRY(check_sharing(api, host, tree));
  result.vram_ = TRY(vram_of(api, host, tree));
  const uint64_t needed = sum(result.vram_);
  const uint64_t available = TRY(available_host_memory());
  if (needed > available)
    return Error::of(ENOMEM,
                     "its VRAM of {} MiB does not fit into host memory, of which {} MiB are "
                     "available: end other programs, or dump it with criu",
                     needed >> kMebibyteShift, available >> kMebibyteShift);
  begin(needed);
  result.hashes_ = KeptHashes::compute({api, host, tree, make_engine}, result.vram_);
  auto clients = tree.paused_clients();
  // Processes of /dev/kfd first, whose BOs files of render nodes may have as well.
  std::ranges::reverse(clients);
  for (const PausedClient* client : clients) {
    const auto evicted = api.evict(client->node(), tree.session());
    if (!evicted.ok()) {
      if (evicted.error().code() != ENOMEM) return evicted.error();
      return Error::of(ENOMEM,
                       "its VRAM of {} MiB does not fit into the host memory that the kernel "
                       "allows for GPUs (half of all, see ttm.pages_limit): {}",
                       needed >> kMebibyteShift, evicted.error().message());
    }
    const auto owners = tree.owners_of(*client);
    result.kept_.push_back({{owners.begin(), owners.end()}, evicted->kept});
  }
  // Not the sum over the clients, who may have the same BOs.
  result.bytes_ = needed - std::min(needed, result.kept());
  return result;
}

uint64_t Suspension::kept() const {
  return std::accumulate(kept_.begin(), kept_.end(), uint64_t{0},
                         [](uint64_t all, const Kept& one) { return all + one.bytes; });
}

Status Suspension::check_room(const host::Host& host) const {
  Living living;
  uint64_t kept = 0;
  for (const Kept& one : kept_)
    if (living.has_any(one.owners)) kept += one.bytes;
  for (const topology::Gpu& gpu : TRY(host.gpus())) {
    const auto found =
        std::ranges::find(vram_, gpu.gpu_id, [](const VramOfGpu& one) { return one.gpu.gpu_id; });
    const auto free = host.vram_free(gpu.render_minor);
    if (found == vram_.end() || !free) continue;
    const uint64_t needed = living.bytes_of(*found);
    if (needed <= *free + kept) continue;
    return Error::of(ENOMEM,
                     "it needs {} MiB of VRAM of {}, and others have left {} MiB: end or suspend "
                     "what uses this GPU",
                     needed >> kMebibyteShift, gpu.describe(), *free >> kMebibyteShift);
  }
  return {};
}

}  // namespace amdgpu_criu::dump
