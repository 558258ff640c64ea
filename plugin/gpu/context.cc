// SPDX-License-Identifier: GPL-2.0
#include "gpu/context.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace amdgpu_criu::gpu {
namespace {

// Long enough for the slowest work, that of a software GPU.
constexpr std::chrono::seconds kFenceTimeout{120};
constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{500};

Result<bool> is_signaled(amdgpu_cs_fence& fence, std::chrono::nanoseconds wait) {
  uint32_t signaled = 0;
  const uint64_t flags = wait.count() == 0 ? AMDGPU_QUERY_FENCE_TIMEOUT_IS_ABSOLUTE : 0;
  TRY(checked(amdgpu_cs_query_fence_status(&fence, wait.count(), flags, &signaled),
              "waiting for the GPU"));
  return signaled != 0;
}

// The file describes the time namespace of children, which differs from that of this process only
// after unshare(); the offsets of such a namespace do not matter here.
bool has_clock_of_the_machine() {
  std::ifstream offsets("/proc/self/timens_offsets");
  std::string clock;
  int64_t seconds = 0, nanoseconds = 0;
  while (offsets >> clock >> seconds >> nanoseconds)
    if (seconds != 0 || nanoseconds != 0) return false;
  return true;
}

struct ListCloser {
  void operator()(amdgpu_bo_list* list) const { amdgpu_bo_list_destroy(list); }
};
using BoList = std::unique_ptr<amdgpu_bo_list, ListCloser>;

}  // namespace

Result<std::unique_ptr<Context>> Context::create(amdgpu_device* device) {
  amdgpu_context_handle context = nullptr;
  TRY(checked(amdgpu_cs_ctx_create(device, &context), "cannot create a GPU context"));
  std::unique_ptr<Context> result(new Context(device, context));
  result->waits_in_kernel_ = has_clock_of_the_machine();
  return result;
}

Result<uint64_t> Context::submit(const CommandBuffer& commands, std::vector<amdgpu_bo_handle> bos) {
  std::ranges::sort(bos);
  const auto [first, last] = std::ranges::unique(bos);
  bos.erase(first, last);
  amdgpu_bo_list_handle list = nullptr;
  TRY(checked(amdgpu_bo_list_create(device_, bos.size(), bos.data(), nullptr, &list),
              "cannot make a BO list"));
  const BoList list_owner(list);
  amdgpu_cs_ib_info ib{};
  ib.ib_mc_address = commands.address;
  ib.size = commands.dwords;
  ib.flags = commands.flags;
  amdgpu_cs_request request{};
  request.ip_type = commands.engine;
  request.resources = list;
  request.number_of_ibs = 1;
  request.ibs = &ib;
  if (const int result = amdgpu_cs_submit(context_, 0, &request, 1); result != 0)
    return Error::of(-result, "cannot submit {}: {}", commands.what, strerror(-result));
  return request.seq_no;
}

// A wait in the kernel has an absolute timeout on the host's CLOCK_MONOTONIC. A restored task may
// live in a time namespace, whose clock continues from the dump, so the timeout that libdrm
// computes there may have passed already, or be days away. Such a task polls the fence.
Status Context::wait(const CommandBuffer& commands, uint64_t number) {
  amdgpu_cs_fence fence{};
  fence.context = context_;
  fence.ip_type = commands.engine;
  fence.fence = number;
  const auto end = std::chrono::steady_clock::now() + kFenceTimeout;
  auto pause = kShortestPoll;
  while (!TRY(is_signaled(fence, waits_in_kernel_ ? kFenceTimeout : std::chrono::seconds(0)))) {
    if (std::chrono::steady_clock::now() >= end)
      return Error::of(ETIMEDOUT, "{} did not finish within {} s", commands.what,
                       kFenceTimeout.count());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPoll);
  }
  uint64_t flags = 0;
  TRY(checked(amdgpu_cs_query_reset_state2(context_, &flags), "cannot query the context"));
  if (flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST))
    return Error::of(ENODATA, "{}: the GPU was reset", commands.what);
  return {};
}

}  // namespace amdgpu_criu::gpu
