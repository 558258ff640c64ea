// SPDX-License-Identifier: GPL-2.0
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/chunk_hasher.h"
#include "gpu/context.h"
#include "gpu/drm.h"
#include "gpu/engine.h"
#include "gpu/mapped_bo.h"

namespace amdgpu_criu::gpu {
namespace {

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

// The driver can be loaded so that programs get only user queues.
Status check_rings(amdgpu_device* device) {
  drm_amdgpu_info_hw_ip info{};
  TRY(checked(amdgpu_query_hw_ip_info(device, AMDGPU_HW_IP_DMA, 0, &info),
              "cannot query SDMA rings"));
  if (info.available_rings != 0) return {};
  return Error(ENOTSUP,
               "the driver takes no SDMA copies from programs, as with amdgpu.user_queue=2");
}

struct Slot {
  Staging staging;
  std::span<std::byte> bytes;
  std::unique_ptr<MappedBo> commands;
  std::span<uint32_t> ib;
  uint64_t fence = 0;  // 0: idle
};

class SdmaEngine : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(Fd render_node, StagingSize staging) {
    std::unique_ptr<SdmaEngine> engine(new SdmaEngine);
    engine->device_ = TRY(open_device(render_node));
    amdgpu_device* const device = engine->device_.get();
    TRY(check_rings(device));
    amdgpu_gpu_info info{};
    TRY(checked(amdgpu_query_gpu_info(device, &info), "cannot query the GPU"));
    engine->count_is_minus_one_ = info.family_id >= AMDGPU_FAMILY_AI;
    engine->context_ = TRY(Context::create(device));
    engine->slot_bytes_ = staging.bytes;
    TRY(engine->add_slots(staging.slots));
    return std::unique_ptr<Engine>(std::move(engine));
  }

  // The GPU must not write to staging memory, or read from it, once it is freed.
  ~SdmaEngine() override {
    for (unsigned slot = 0; slot < slots_.size(); slot++) (void)wait(slot);
  }

  int file() const override { return amdgpu_device_get_fd(device_.get()); }
  unsigned slots() const override { return slots_.size(); }
  Status add_slots(unsigned count) override {
    for (unsigned i = 0; i < count; i++) slots_.push_back(TRY(make_slot()));
    return {};
  }
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

  Result<std::unique_ptr<Imported>> import_pages(std::span<const std::byte> pages,
                                                 PageUse use) override {
    return std::unique_ptr<Imported>(TRY(MappedBo::of_pages(device_.get(), pages, use)));
  }

  Status start_read(unsigned slot, std::span<const Piece> pieces) override {
    IbBuilder ib(slots_[slot].ib, count_is_minus_one_);
    TRY(check(slots_[slot], pieces));
    for (const Piece& piece : pieces) {
      const MappedBo& to = place_of(slots_[slot], piece);
      if (!to.is_writable()) return Error(EINVAL, "a copy to pages that the GPU only reads");
      ib.copy(address_of(piece), to.address() + piece.at, piece.size);
    }
    return submit(slots_[slot], pieces, ib.finish());
  }
  Status start_write(unsigned slot, std::span<const Piece> pieces) override {
    IbBuilder ib(slots_[slot].ib, count_is_minus_one_);
    TRY(check(slots_[slot], pieces));
    for (const Piece& piece : pieces) {
      const MappedBo& from = place_of(slots_[slot], piece);
      if (piece.zero)
        ib.fill_with_zeros(address_of(piece), piece.size);
      else
        ib.copy(from.address() + piece.at, address_of(piece), piece.size);
    }
    return submit(slots_[slot], pieces, ib.finish());
  }

  Status wait(unsigned index) override {
    Slot& slot = slots_[index];
    if (slot.fence == 0) return {};
    return context_->wait(commands_of(slot, 0), std::exchange(slot.fence, 0));
  }

  Status hash(std::span<const Hashed> bos, uint32_t chunk_bytes, const TakeHashes& take) override {
    if (!hasher_) hasher_ = TRY(ChunkHasher::create(device_.get()));
    return hasher_->hash(bos, chunk_bytes, take);
  }

 private:
  SdmaEngine() = default;

  Result<Slot> make_slot() const {
    Slot slot;
    slot.staging = TRY(Staging::create(device_.get(), slot_bytes_));
    slot.bytes = slot.staging.memory.bytes().first(slot_bytes_);
    slot.commands = TRY(MappedBo::allocate(device_.get(), kIbDwords * sizeof(uint32_t)));
    const std::span<std::byte> ib = TRY(slot.commands->map_for_cpu());
    slot.ib = {reinterpret_cast<uint32_t*>(ib.data()), kIbDwords};
    return slot;
  }

  static const MappedBo* mapped(const Imported* one) { return static_cast<const MappedBo*>(one); }
  static const MappedBo& place_of(const Slot& slot, const Piece& piece) {
    return piece.pages ? *mapped(piece.pages) : *slot.staging.bo;
  }
  static uint64_t address_of(const Piece& piece) {
    return mapped(piece.bo)->address() + piece.offset;
  }

  static Status check(const Slot& slot, std::span<const Piece> pieces) {
    uint64_t packets = 0;
    for (const Piece& piece : pieces) {
      const uint64_t bo = mapped(piece.bo)->size();
      const uint64_t room = piece.pages ? mapped(piece.pages)->size() : slot.bytes.size();
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
    std::vector<uint32_t> handles = {slot.commands->handle(), slot.staging.bo->handle()};
    for (const Piece& piece : pieces) {
      handles.push_back(mapped(piece.bo)->handle());
      if (piece.pages) handles.push_back(mapped(piece.pages)->handle());
    }
    slot.fence = TRY(context_->submit(commands_of(slot, dwords), std::move(handles)));
    return {};
  }

  static CommandBuffer commands_of(const Slot& slot, uint32_t dwords) {
    return {AMDGPU_HW_IP_DMA, slot.commands->address(), dwords, 0, "an SDMA copy"};
  }

  // Destroyed in reverse: slots before the context, the device last.
  DrmDevice device_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<ChunkHasher> hasher_;
  size_t slot_bytes_ = 0;
  std::vector<Slot> slots_;
  bool count_is_minus_one_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> make_sdma_engine(Fd render_node, StagingSize staging) {
  return SdmaEngine::create(std::move(render_node), staging);
}

Status check_sdma(const Fd& render_node) {
  const DrmDevice device = TRY(open_device(render_node));
  return check_rings(device.get());
}

}  // namespace amdgpu_criu::gpu
