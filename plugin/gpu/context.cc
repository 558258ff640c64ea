// SPDX-License-Identifier: GPL-2.0
#include "gpu/context.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

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

class BoList {
 public:
  static Result<BoList> create(amdgpu_device* device, std::vector<uint32_t> handles) {
    std::ranges::sort(handles);
    const auto [first, last] = std::ranges::unique(handles);
    handles.erase(first, last);
    std::vector<drm_amdgpu_bo_list_entry> entries;
    for (const uint32_t handle : handles) entries.push_back({handle, 0});
    BoList list(device);
    TRY(checked(amdgpu_bo_list_create_raw(device, static_cast<uint32_t>(entries.size()),
                                          entries.data(), &list.handle_),
                "cannot make a BO list"));
    return list;
  }
  BoList(BoList&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, 0)) {}
  BoList& operator=(BoList&&) = delete;
  ~BoList() {
    if (handle_) amdgpu_bo_list_destroy_raw(device_, handle_);
  }
  uint32_t handle() const { return handle_; }

 private:
  explicit BoList(amdgpu_device* device) : device_(device) {}
  amdgpu_device* device_;
  uint32_t handle_ = 0;
};

}  // namespace

Result<std::unique_ptr<Context>> Context::create(amdgpu_device* device) {
  amdgpu_context_handle context = nullptr;
  TRY(checked(amdgpu_cs_ctx_create(device, &context), "cannot create a GPU context"));
  std::unique_ptr<Context> result(new Context(device, context));
  result->waits_in_kernel_ = has_clock_of_the_machine();
  return result;
}

Result<uint64_t> Context::submit(const CommandBuffer& commands, std::vector<uint32_t> bos) {
  const BoList list = TRY(BoList::create(device_, std::move(bos)));
  drm_amdgpu_cs_chunk_ib ib{};
  ib.ip_type = commands.engine;
  ib.flags = commands.flags;
  ib.va_start = commands.address;
  ib.ib_bytes = commands.dwords * sizeof(uint32_t);
  drm_amdgpu_cs_chunk chunk{AMDGPU_CHUNK_ID_IB, sizeof(ib) / sizeof(uint32_t),
                            reinterpret_cast<uintptr_t>(&ib)};
  uint64_t number = 0;
  if (const int result =
          amdgpu_cs_submit_raw2(device_, context_, list.handle(), 1, &chunk, &number);
      result != 0)
    return Error::of(-result, "cannot submit {}: {}", commands.what, strerror(-result));
  return number;
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
  // FLAGS_RESET says less: all contexts have it when the driver has ended work of one of them that
  // hung. Work that was lost has an error of its fence.
  if (flags & AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST)
    return Error::of(ENODATA, "{}: the GPU was reset", commands.what);
  return {};
}

}  // namespace amdgpu_criu::gpu
