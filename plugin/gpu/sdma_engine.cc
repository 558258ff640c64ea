// SPDX-License-Identifier: GPL-2.0
// The only file that talks to libdrm_amdgpu.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "gpu/engine.h"
#include "gpu/sdma_packets.h"

namespace gpu {
namespace {

using base::Error;

constexpr uint64_t kGpuPage = 4096;
// Generous: the slowest copies are on a software GPU.
constexpr std::chrono::seconds kFenceTimeout{120};
constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{500};

// libdrm returns negated errno values.
Status checked(int result, const char* what) {
  if (result == 0) return {};
  return Error::of(-result, "{}: {}", what, strerror(-result));
}

// Waits for a fence by looking at it. A wait in the kernel has an absolute end on the host's
// CLOCK_MONOTONIC, and a restored task lives in a time namespace, whose clock goes on from the
// dump: the end that libdrm works out there may have passed already, or be days away.
Status wait_for(amdgpu_cs_fence& fence) {
  const auto end = std::chrono::steady_clock::now() + kFenceTimeout;
  auto pause = kShortestPoll;
  for (;;) {
    uint32_t signaled = 0;
    TRY(checked(
        amdgpu_cs_query_fence_status(&fence, 0, AMDGPU_QUERY_FENCE_TIMEOUT_IS_ABSOLUTE, &signaled),
        "waiting for an SDMA copy"));
    if (signaled) return {};
    if (std::chrono::steady_clock::now() >= end)
      return Error::of(ETIMEDOUT, "an SDMA copy did not finish within {} s", kFenceTimeout.count());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPoll);
  }
}

struct DeviceCloser {
  void operator()(amdgpu_device* device) const { amdgpu_device_deinitialize(device); }
};
using Device = std::unique_ptr<amdgpu_device, DeviceCloser>;

struct ContextCloser {
  void operator()(amdgpu_context* context) const { amdgpu_cs_ctx_free(context); }
};
using Context = std::unique_ptr<amdgpu_context, ContextCloser>;

struct ListCloser {
  void operator()(amdgpu_bo_list* list) const { amdgpu_bo_list_destroy(list); }
};
using BoList = std::unique_ptr<amdgpu_bo_list, ListCloser>;

// A BO handle and the GPU address it is mapped at; undone in reverse.
class MappedBo : public Imported {
 public:
  static Result<std::unique_ptr<MappedBo>> create(amdgpu_device* device, amdgpu_bo_handle handle,
                                                  uint64_t size) {
    std::unique_ptr<MappedBo> bo(new MappedBo(handle, size));
    TRY(checked(amdgpu_va_range_alloc(device, amdgpu_gpu_va_range_general, size, kGpuPage, 0,
                                      &bo->address_, &bo->range_, 0),
                "cannot reserve GPU addresses"));
    TRY(checked(amdgpu_bo_va_op(handle, 0, size, bo->address_, 0, AMDGPU_VA_OP_MAP),
                "cannot map a BO on the GPU"));
    bo->mapped_ = true;
    return bo;
  }
  MappedBo(const MappedBo&) = delete;
  MappedBo& operator=(const MappedBo&) = delete;
  ~MappedBo() override {
    if (cpu_) amdgpu_bo_cpu_unmap(handle_);
    if (mapped_) amdgpu_bo_va_op(handle_, 0, size_, address_, 0, AMDGPU_VA_OP_UNMAP);
    if (range_) amdgpu_va_range_free(range_);
    amdgpu_bo_free(handle_);
  }

  Result<std::span<std::byte>> map_for_cpu() {
    TRY(checked(amdgpu_bo_cpu_map(handle_, &cpu_), "cannot map staging memory"));
    return std::span(static_cast<std::byte*>(cpu_), size_);
  }
  amdgpu_bo_handle handle() const { return handle_; }
  uint64_t address() const { return address_; }
  uint64_t size() const { return size_; }

 private:
  MappedBo(amdgpu_bo_handle handle, uint64_t size) : handle_(handle), size_(size) {}

  amdgpu_bo_handle handle_;
  uint64_t size_;
  uint64_t address_ = 0;
  amdgpu_va_handle range_ = nullptr;
  bool mapped_ = false;
  void* cpu_ = nullptr;
};

Result<std::unique_ptr<MappedBo>> allocate_gtt(amdgpu_device* device, uint64_t size) {
  amdgpu_bo_alloc_request request{};
  request.alloc_size = size;
  request.phys_alignment = kGpuPage;
  request.preferred_heap = AMDGPU_GEM_DOMAIN_GTT;
  amdgpu_bo_handle handle = nullptr;
  TRY(checked(amdgpu_bo_alloc(device, &request, &handle), "cannot allocate staging memory"));
  return MappedBo::create(device, handle, size);
}

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The staging buffer of one slot with, behind it, the slot's command buffer.
struct Slot {
  std::unique_ptr<MappedBo> bo;
  std::span<std::byte> bytes;
  std::span<uint32_t> ib;
  uint64_t ib_address = 0;
  uint64_t fence = 0;  // 0: idle
};

class SdmaEngine : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(Fd render_node, StagingSize staging) {
    std::unique_ptr<SdmaEngine> engine(new SdmaEngine);
    uint32_t major = 0, minor = 0;
    amdgpu_device_handle device = nullptr;
    TRY(checked(amdgpu_device_initialize(render_node.get(), &major, &minor, &device),
                "cannot initialize the GPU for copies"));
    engine->device_.reset(device);
    amdgpu_gpu_info info{};
    TRY(checked(amdgpu_query_gpu_info(device, &info), "cannot query the GPU"));
    engine->count_is_minus_one_ = info.family_id >= AMDGPU_FAMILY_AI;
    amdgpu_context_handle context = nullptr;
    TRY(checked(amdgpu_cs_ctx_create(device, &context), "cannot create a GPU context"));
    engine->context_.reset(context);
    for (unsigned i = 0; i < staging.slots; i++) TRY(engine->add_slot(staging.bytes));
    return std::unique_ptr<Engine>(std::move(engine));
  }

  // The GPU must not write to staging memory, or read from it, once it is freed.
  ~SdmaEngine() override {
    for (unsigned slot = 0; slot < slots_.size(); slot++) (void)wait(slot);
  }

  int file() const override { return amdgpu_device_get_fd(device_.get()); }
  unsigned slots() const override { return slots_.size(); }
  std::span<std::byte> staging(unsigned slot) override { return slots_[slot].bytes; }

  Result<std::unique_ptr<Imported>> import(const Fd& dmabuf, uint64_t size) override {
    amdgpu_bo_import_result imported{};
    TRY(checked(
        amdgpu_bo_import(device_.get(), amdgpu_bo_handle_type_dma_buf_fd, dmabuf.get(), &imported),
        "cannot import a dma-buf"));
    if (imported.alloc_size < size) {
      amdgpu_bo_free(imported.buf_handle);
      return Error::of(EPROTO, "a dma-buf of {:#x} bytes stands for a BO of {:#x}",
                       imported.alloc_size, size);
    }
    auto bo = TRY(MappedBo::create(device_.get(), imported.buf_handle, size));
    return std::unique_ptr<Imported>(std::move(bo));
  }

  Status start_read(unsigned slot, Imported& from, uint64_t offset, size_t size) override {
    auto& bo = static_cast<MappedBo&>(from);
    return start(slots_[slot], bo, bo.address() + offset, slots_[slot].bo->address(), size);
  }
  Status start_write(unsigned slot, Imported& to, uint64_t offset, size_t size) override {
    auto& bo = static_cast<MappedBo&>(to);
    return start(slots_[slot], bo, slots_[slot].bo->address(), bo.address() + offset, size);
  }

  Status wait(unsigned index) override {
    Slot& slot = slots_[index];
    if (slot.fence == 0) return {};
    amdgpu_cs_fence fence{};
    fence.context = context_.get();
    fence.ip_type = AMDGPU_HW_IP_DMA;
    fence.fence = std::exchange(slot.fence, 0);
    TRY(wait_for(fence));
    return check_context();
  }

 private:
  SdmaEngine() = default;

  Status add_slot(size_t bytes) {
    const uint64_t data = round_up(bytes, kGpuPage);
    const uint64_t ib = round_up(copy_ib_dwords(bytes) * sizeof(uint32_t), kGpuPage);
    Slot slot;
    slot.bo = TRY(allocate_gtt(device_.get(), data + ib));
    const auto mapped = TRY(slot.bo->map_for_cpu());
    slot.bytes = mapped.first(bytes);
    slot.ib = {reinterpret_cast<uint32_t*>(mapped.data() + data), ib / sizeof(uint32_t)};
    slot.ib_address = slot.bo->address() + data;
    slots_.push_back(std::move(slot));
    return {};
  }

  Status start(Slot& slot, MappedBo& bo, uint64_t from, uint64_t to, size_t size) {
    if (size == 0 || size > slot.bytes.size()) return Error(EINVAL, "copy does not fit its slot");
    amdgpu_bo_handle handles[] = {slot.bo->handle(), bo.handle()};
    amdgpu_bo_list_handle list = nullptr;
    TRY(checked(amdgpu_bo_list_create(device_.get(), 2, handles, nullptr, &list),
                "cannot make a BO list"));
    const BoList list_owner(list);
    amdgpu_cs_ib_info ib{};
    ib.ib_mc_address = slot.ib_address;
    ib.size = build_copy_ib(slot.ib, from, to, size, count_is_minus_one_);
    amdgpu_cs_request request{};
    request.ip_type = AMDGPU_HW_IP_DMA;
    request.resources = list;
    request.number_of_ibs = 1;
    request.ibs = &ib;
    TRY(checked(amdgpu_cs_submit(context_.get(), 0, &request, 1), "cannot submit an SDMA copy"));
    slot.fence = request.seq_no;
    return {};
  }

  // After a GPU reset fences signal although the copies behind them were lost.
  Status check_context() {
    uint64_t flags = 0;
    TRY(checked(amdgpu_cs_query_reset_state2(context_.get(), &flags), "cannot query the context"));
    if (flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST))
      return Error(ENODATA, "the GPU was reset while its memory was copied");
    return {};
  }

  // Destroyed in reverse: slots before the context, the device last.
  Device device_;
  Context context_;
  std::vector<Slot> slots_;
  bool count_is_minus_one_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_sdma_engine(Fd render_node, StagingSize staging) {
  return SdmaEngine::create(std::move(render_node), staging);
}

}  // namespace gpu
