// SPDX-License-Identifier: GPL-2.0
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gpu/drm.h"
#include "gpu/engine.h"

namespace amdgpu_criu::gpu {
namespace {

// Long enough for the slowest copies, those on a software GPU.
constexpr std::chrono::seconds kFenceTimeout{120};
constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{500};

Result<bool> is_signaled(amdgpu_cs_fence& fence, std::chrono::nanoseconds wait) {
  uint32_t signaled = 0;
  const uint64_t flags = wait.count() == 0 ? AMDGPU_QUERY_FENCE_TIMEOUT_IS_ABSOLUTE : 0;
  TRY(checked(amdgpu_cs_query_fence_status(&fence, wait.count(), flags, &signaled),
              "waiting for an SDMA copy"));
  return signaled != 0;
}

// A wait in the kernel has an absolute timeout on the host's CLOCK_MONOTONIC. A restored task may
// live in a time namespace, whose clock continues from the dump, so the timeout that libdrm
// computes there may have passed already, or be days away. Such a task polls the fence.
Status wait_for(amdgpu_cs_fence& fence, bool in_kernel) {
  const auto end = std::chrono::steady_clock::now() + kFenceTimeout;
  auto pause = kShortestPoll;
  while (!TRY(is_signaled(fence, in_kernel ? kFenceTimeout : std::chrono::seconds(0)))) {
    if (std::chrono::steady_clock::now() >= end)
      return Error::of(ETIMEDOUT, "an SDMA copy did not finish within {} s", kFenceTimeout.count());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPoll);
  }
  return {};
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

struct ContextCloser {
  void operator()(amdgpu_context* context) const { amdgpu_cs_ctx_free(context); }
};
using Context = std::unique_ptr<amdgpu_context, ContextCloser>;

struct ListCloser {
  void operator()(amdgpu_bo_list* list) const { amdgpu_bo_list_destroy(list); }
};
using BoList = std::unique_ptr<amdgpu_bo_list, ListCloser>;

constexpr uint64_t kAccess =
    AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;

// A BO and the GPU address it is mapped at; undone in reverse.
class MappedBo : public Imported {
 public:
  static Result<std::unique_ptr<MappedBo>> create(amdgpu_device* device, DrmBo handle,
                                                  uint64_t size) {
    std::unique_ptr<MappedBo> bo(new MappedBo(device, std::move(handle), size));
    TRY(checked(amdgpu_va_range_alloc(device, amdgpu_gpu_va_range_general, size, kGpuPage, 0,
                                      &bo->address_, &bo->range_, 0),
                "cannot reserve GPU addresses"));
    TRY(bo->change_mapping(kAccess, AMDGPU_VA_OP_MAP));
    bo->mapped_ = true;
    return bo;
  }
  MappedBo(const MappedBo&) = delete;
  MappedBo& operator=(const MappedBo&) = delete;
  ~MappedBo() override {
    if (cpu_) amdgpu_bo_cpu_unmap(handle());
    if (mapped_) (void)change_mapping(0, AMDGPU_VA_OP_UNMAP);
    handle_.reset();
    if (range_) amdgpu_va_range_free(range_);
  }

  Result<std::span<std::byte>> map_for_cpu() {
    TRY(checked(amdgpu_bo_cpu_map(handle(), &cpu_), "cannot map staging memory"));
    return std::span(static_cast<std::byte*>(cpu_), size_);
  }
  amdgpu_bo_handle handle() const { return handle_.get(); }
  uint64_t address() const { return address_; }
  uint64_t size() const { return size_; }

 private:
  MappedBo(amdgpu_device* device, DrmBo handle, uint64_t size)
      : device_(device), handle_(std::move(handle)), size_(size) {}

  // Page tables are written by the next submission, for all BOs together, and cleared when the
  // handle is closed.
  Status change_mapping(uint64_t access, uint32_t operation) {
    return checked(amdgpu_bo_va_op_raw(device_, handle(), 0, size_, address_,
                                       access | AMDGPU_VM_DELAY_UPDATE, operation),
                   "cannot map a BO on the GPU");
  }

  amdgpu_device* device_;
  DrmBo handle_;
  uint64_t size_;
  uint64_t address_ = 0;
  amdgpu_va_handle range_ = nullptr;
  bool mapped_ = false;
  void* cpu_ = nullptr;
};

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Staging memory is memory of this process that the GPU maps, because direct file I/O needs such
// memory.
struct Staging {
  Mapping memory;
  std::unique_ptr<MappedBo> bo;  // destroyed first

  static Result<Staging> create(amdgpu_device* device, size_t bytes) {
    Staging staging;
    staging.memory = TRY(Mapping::map(round_up(bytes, kGpuPage), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS));
    const auto all = staging.memory.bytes();
    // Both are optional: huge pages are faster to map, and a fork would copy all pages.
    (void)madvise(all.data(), all.size(), MADV_HUGEPAGE);
    (void)madvise(all.data(), all.size(), MADV_DONTFORK);
    amdgpu_bo_handle handle = nullptr;
    TRY(checked(amdgpu_create_bo_from_user_mem(device, all.data(), all.size(), &handle),
                "cannot make staging memory known to the GPU"));
    staging.bo = TRY(MappedBo::create(device, DrmBo(handle), all.size()));
    return staging;
  }
};

struct Slot {
  Staging staging;
  std::span<std::byte> bytes;
  std::span<uint32_t> ib;
  uint64_t ib_address = 0;
  uint64_t fence = 0;  // 0: idle
};

constexpr size_t kIbBytes = round_up(kIbDwords * sizeof(uint32_t), kGpuPage);

class SdmaEngine : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(Fd render_node, StagingSize staging) {
    std::unique_ptr<SdmaEngine> engine(new SdmaEngine);
    engine->device_ = TRY(open_device(render_node));
    amdgpu_device* const device = engine->device_.get();
    amdgpu_gpu_info info{};
    TRY(checked(amdgpu_query_gpu_info(device, &info), "cannot query the GPU"));
    engine->count_is_minus_one_ = info.family_id >= AMDGPU_FAMILY_AI;
    amdgpu_context_handle context = nullptr;
    TRY(checked(amdgpu_cs_ctx_create(device, &context), "cannot create a GPU context"));
    engine->context_.reset(context);
    TRY(engine->allocate_ibs(staging.slots));
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
    DrmBo handle(imported.buf_handle);
    if (imported.alloc_size < size)
      return Error::of(EPROTO, "a dma-buf of {:#x} bytes for a BO of {:#x} bytes",
                       imported.alloc_size, size);
    auto bo = TRY(MappedBo::create(device_.get(), std::move(handle), size));
    return std::unique_ptr<Imported>(std::move(bo));
  }

  Status start_read(unsigned slot, std::span<const Piece> pieces) override {
    IbBuilder ib(slots_[slot].ib, count_is_minus_one_);
    const uint64_t staging = slots_[slot].staging.bo->address();
    TRY(check(slots_[slot], pieces));
    for (const Piece& piece : pieces) ib.copy(address_of(piece), staging + piece.at, piece.size);
    return submit(slots_[slot], pieces, ib.finish());
  }
  Status start_write(unsigned slot, std::span<const Piece> pieces) override {
    IbBuilder ib(slots_[slot].ib, count_is_minus_one_);
    const uint64_t staging = slots_[slot].staging.bo->address();
    TRY(check(slots_[slot], pieces));
    for (const Piece& piece : pieces)
      if (piece.zero)
        ib.fill_with_zeros(address_of(piece), piece.size);
      else
        ib.copy(staging + piece.at, address_of(piece), piece.size);
    return submit(slots_[slot], pieces, ib.finish());
  }

  Status wait(unsigned index) override {
    Slot& slot = slots_[index];
    if (slot.fence == 0) return {};
    amdgpu_cs_fence fence{};
    fence.context = context_.get();
    fence.ip_type = AMDGPU_HW_IP_DMA;
    fence.fence = std::exchange(slot.fence, 0);
    TRY(wait_for(fence, waits_in_kernel_));
    return check_context();
  }

 private:
  SdmaEngine() = default;

  Status allocate_ibs(unsigned slots) {
    const uint64_t bytes = slots * kIbBytes;
    DrmBo handle = TRY(allocate_bo(device_.get(), AMDGPU_GEM_DOMAIN_GTT, 0, bytes));
    ibs_ = TRY(MappedBo::create(device_.get(), std::move(handle), bytes));
    ib_bytes_ = TRY(ibs_->map_for_cpu());
    return {};
  }

  Status add_slot(size_t bytes) {
    const size_t ib = slots_.size() * kIbBytes;
    Slot slot;
    slot.staging = TRY(Staging::create(device_.get(), bytes));
    slot.bytes = slot.staging.memory.bytes().first(bytes);
    slot.ib = {reinterpret_cast<uint32_t*>(ib_bytes_.data() + ib), kIbDwords};
    slot.ib_address = ibs_->address() + ib;
    slots_.push_back(std::move(slot));
    return {};
  }

  static uint64_t address_of(const Piece& piece) {
    return static_cast<MappedBo*>(piece.bo)->address() + piece.offset;
  }

  static Status check(const Slot& slot, std::span<const Piece> pieces) {
    uint64_t packets = 0;
    for (const Piece& piece : pieces) {
      const uint64_t bo = static_cast<MappedBo*>(piece.bo)->size();
      const size_t room = slot.bytes.size();
      if (piece.size == 0 || piece.offset > bo || piece.size > bo - piece.offset ||
          (!piece.zero && (piece.at > room || piece.size > room - piece.at)))
        return Error(EINVAL, "a copy does not fit its slot or its BO");
      packets += packets_for(piece.size);
    }
    if (pieces.empty() || packets > kMaxPackets)
      return Error::of(EINVAL, "a submission of {} SDMA packets", packets);
    return {};
  }

  Status submit(Slot& slot, std::span<const Piece> pieces, uint32_t dwords) {
    std::vector<amdgpu_bo_handle> handles = {ibs_->handle(), slot.staging.bo->handle()};
    for (const Piece& piece : pieces) handles.push_back(static_cast<MappedBo*>(piece.bo)->handle());
    // A BO with several pieces is listed only once.
    std::sort(handles.begin() + 2, handles.end());
    handles.erase(std::unique(handles.begin() + 2, handles.end()), handles.end());
    amdgpu_bo_list_handle list = nullptr;
    TRY(checked(
        amdgpu_bo_list_create(device_.get(), handles.size(), handles.data(), nullptr, &list),
        "cannot make a BO list"));
    const BoList list_owner(list);
    amdgpu_cs_ib_info ib{};
    ib.ib_mc_address = slot.ib_address;
    ib.size = dwords;
    amdgpu_cs_request request{};
    request.ip_type = AMDGPU_HW_IP_DMA;
    request.resources = list;
    request.number_of_ibs = 1;
    request.ibs = &ib;
    TRY(checked(amdgpu_cs_submit(context_.get(), 0, &request, 1), "cannot submit an SDMA copy"));
    slot.fence = request.seq_no;
    return {};
  }

  // After a GPU reset, fences signal although their copies were lost.
  Status check_context() {
    uint64_t flags = 0;
    TRY(checked(amdgpu_cs_query_reset_state2(context_.get(), &flags), "cannot query the context"));
    if (flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST))
      return Error(ENODATA, "the GPU was reset while its memory was copied");
    return {};
  }

  // Destroyed in reverse: slots before the context, the device last.
  DrmDevice device_;
  Context context_;
  std::unique_ptr<MappedBo> ibs_;  // the command buffers of all slots
  std::span<std::byte> ib_bytes_;
  std::vector<Slot> slots_;
  bool count_is_minus_one_ = true;
  bool waits_in_kernel_ = has_clock_of_the_machine();
};

}  // namespace

Result<std::unique_ptr<Engine>> make_sdma_engine(Fd render_node, StagingSize staging) {
  return SdmaEngine::create(std::move(render_node), staging);
}

}  // namespace amdgpu_criu::gpu
