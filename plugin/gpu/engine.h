// SPDX-License-Identifier: GPL-2.0
// Asynchronous copies between BOs of one GPU and a bounded ring of pinned staging buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "gpu/sdma_packets.h"

namespace amdgpu_criu::gpu {

struct StagingSize {
  unsigned slots = 4;           // at first
  size_t bytes = 8u << 20;      // of each slot
  unsigned most_slots = slots;  // if more make copies faster

  size_t total() const { return slots * bytes; }
  // Reduces the numbers of slots if they are too large together.
  StagingSize within(size_t limit) const {
    const auto fitting = [&](unsigned count) {
      return std::clamp<unsigned>(limit / bytes, 1, count);
    };
    return {fitting(slots), bytes, fitting(most_slots)};
  }
};
// The limit of the staging memory of a GPU.
inline constexpr size_t kMaxStaging = 64u << 20;
inline constexpr unsigned kMaxSlots = 64;

// A dma-buf made known to the engine. Must outlive the copies that were started on it.
class Imported {
 public:
  virtual ~Imported() = default;
};

// Part of a file in memory whose pages the engine knows, and holds while this exists.
struct PageWindow {
  uint64_t start = 0;  // in the file
  uint64_t end = 0;
  std::unique_ptr<Imported> pages;
};

// Part of a BO and its place in a slot.
struct Piece {
  Imported* bo = nullptr;
  uint64_t offset = 0;  // in the BO
  uint64_t size = 0;
  size_t at = 0;                    // in the slot
  bool zero = false;                // of start_write(): zeros, and no bytes of the slot
  const Imported* pages = nullptr;  // `at` is in these, not in the slot
};

// What the GPU does with pages of this process.
enum class PageUse { kRead, kWrite };

// BLAKE3, as of image::strong_hash().
using ChunkHash = std::array<std::byte, 32>;
struct Hashed {
  Imported* bo = nullptr;
  uint64_t size = 0;
};
// Gets the next hashes. False: no more are needed.
using TakeHashes = std::function<bool(std::span<const ChunkHash>)>;
constexpr uint64_t chunks_of(uint64_t bytes, uint64_t chunk_bytes) {
  return (bytes + chunk_bytes - 1) / chunk_bytes;
}

// BOs whose hashes are computed together. Only these are imported at the same time.
class HashBatch {
 public:
  explicit HashBatch(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  bool has_room() const { return bos_.size() < kMaxBos && chunks_ < kMaxChunks; }
  void add(std::shared_ptr<Imported> bo, uint64_t size) {
    bos_.push_back({bo.get(), size});
    imported_.push_back(std::move(bo));
    chunks_ += chunks_of(size, chunk_bytes_);
  }
  size_t size() const { return bos_.size(); }
  std::span<const Hashed> bos() const { return bos_; }
  std::shared_ptr<Imported> take(size_t index) { return std::exchange(imported_[index], {}); }

 private:
  static constexpr size_t kMaxBos = 256;
  static constexpr uint64_t kMaxChunks = 16384;

  uint64_t chunk_bytes_;
  uint64_t chunks_ = 0;
  std::vector<std::shared_ptr<Imported>> imported_;
  std::vector<Hashed> bos_;
};

// True for errors of a GPU that was reset or removed, or has poisoned memory: what its memory
// contained may be lost. The driver cancels work with ECANCELED if memory was lost before it began,
// and with ETIME if it made the GPU hang.
inline bool is_gpu_lost(const Error& error) {
  constexpr int kLost[] = {ENODATA, ECANCELED, ETIME, ENODEV, EHWPOISON};
  return std::ranges::count(kLost, error.code()) > 0;
}

class Engine {
 public:
  virtual ~Engine() = default;

  // The render-node file that imports BOs. A BO that belongs to one VM (VM_ALWAYS_VALID) can be
  // imported only by a file on which operation DMABUF was called.
  virtual int file() const = 0;
  virtual unsigned slots() const = 0;
  // Adds idle slots of the same size; the others stay what they are.
  virtual Status add_slots(unsigned count) {
    (void)count;
    return Error(ENOTSUP, "this engine gets no more slots");
  }
  // It has whole pages, so that files can be read and written without a copy.
  virtual std::span<std::byte> staging(unsigned slot) = 0;
  virtual Result<std::unique_ptr<Imported>> import(const Fd& dmabuf, uint64_t size) = 0;
  // Makes whole pages of this process known, which start_write() can read or start_read() write.
  // They must stay mapped until the result is destroyed. Any thread may do both.
  virtual Result<std::unique_ptr<Imported>> import_pages(std::span<const std::byte> pages,
                                                         PageUse use) {
    (void)pages, (void)use;
    return Error(ENOTSUP, "this engine copies no pages of files");
  }

  // Starts copies from BOs to the slot, or from the slot to BOs, in one submission of at most
  // kMaxPackets packets. The slot must be idle; it is busy until wait().
  virtual Status start_read(unsigned slot, std::span<const Piece> pieces) = 0;
  virtual Status start_write(unsigned slot, std::span<const Piece> pieces) = 0;
  // Returns at once for an idle slot. After an error the slot's contents are undefined.
  virtual Status wait(unsigned slot) = 0;

  // Computes hashes of the chunks of BOs where the memory is, and gives them in their order. After
  // an error the caller has to compute the others, unless the error is_gpu_lost(). A second thread
  // may call this while the first one copies.
  virtual Status hash(std::span<const Hashed> bos, uint32_t chunk_bytes, const TakeHashes& take) {
    (void)bos, (void)chunk_bytes, (void)take;
    return Error(ENOTSUP, "this engine computes no hashes");
  }
};

// Makes an object of a session known to an engine.
using ImportObject =
    std::function<Result<std::shared_ptr<Imported>>(uint64_t object_id, uint64_t size)>;

using EngineFactory = Result<std::unique_ptr<Engine>> (*)(Fd render_node, StagingSize staging);
using EngineCheck = Status (*)(const Fd& render_node);
using LossCounter = Result<uint32_t> (*)(const Fd& render_node);

// By SDMA, through libdrm_amdgpu, on a render-node file of its own.
Result<std::unique_ptr<Engine>> make_sdma_engine(Fd render_node, StagingSize staging);
// ENOTSUP if the driver takes no copies from programs, so that there can be no such engine.
Status check_sdma(const Fd& render_node);
// How many resets have lost the memory of the GPU since the driver was loaded.
Result<uint32_t> count_losses(const Fd& render_node);

// VRAM to measure with, as a dma-buf, which keeps it until it is closed.
Result<Fd> allocate_vram(const Fd& render_node, uint64_t bytes);

}  // namespace amdgpu_criu::gpu
