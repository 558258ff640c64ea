// SPDX-License-Identifier: GPL-2.0
// A fake GPU: plain memory, and a thread that copies one slot after the other, like the ring of an
// SDMA engine, as fast as it can or at the rate of a link. It hashes at a rate, too: what the
// hashes are was computed before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/engine.h"

namespace amdgpu_criu::bench {

struct Memory : gpu::Imported {
  explicit Memory(std::byte* start) : bytes(start) {}
  std::byte* bytes;
};

struct Pages : gpu::Imported {
  explicit Pages(const std::byte* start) : bytes(const_cast<std::byte*>(start)) {}
  std::byte* bytes;
};

// All rates are bytes per second. 0: no limit for the link, and no hashes.
struct EngineRates {
  double link = 0;
  double hashes = 0;
};
using KnownHash = std::function<gpu::ChunkHash(const std::byte* chunk)>;

class MemoryEngine : public gpu::Engine {
 public:
  explicit MemoryEngine(gpu::StagingSize staging, EngineRates rates = {}, KnownHash hash = {})
      : rates_(rates), known_(std::move(hash)), slot_bytes_(staging.bytes) {
    if (!MemoryEngine::add_slots(staging.slots).ok()) abort();
  }
  MemoryEngine(const MemoryEngine&) = delete;
  MemoryEngine& operator=(const MemoryEngine&) = delete;
  ~MemoryEngine() override {
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    changed_.notify_all();
  }
  int file() const override { return -1; }
  unsigned slots() const override { return static_cast<unsigned>(slots_.size()); }
  Status add_slots(unsigned count) override {
    const std::lock_guard guard(lock_);
    for (unsigned i = 0; i < count; i++)
      slots_.emplace_back().memory = TRY(Mapping::map(slot_bytes_, PROT_READ | PROT_WRITE,
                                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
    return {};
  }
  std::span<std::byte> staging(unsigned slot) override { return slots_[slot].memory.bytes(); }
  Result<std::unique_ptr<gpu::Imported>> import(const Fd&, uint64_t) override {
    return Error(ENOTSUP, "memory is not imported");
  }
  Result<std::unique_ptr<gpu::Imported>> import_pages(std::span<const std::byte> pages,
                                                      gpu::PageUse use) override {
    // As the kernel does, which allocates what is missing.
    if (use == gpu::PageUse::kWrite &&
        madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_POPULATE_WRITE) != 0)
      return Error::system("cannot allocate pages");
    return std::unique_ptr<gpu::Imported>(new Pages(pages.data()));
  }
  Status start_read(unsigned slot, std::span<const gpu::Piece> pieces) override {
    return start(slot, pieces, false);
  }
  Status start_write(unsigned slot, std::span<const gpu::Piece> pieces) override {
    return start(slot, pieces, true);
  }
  Status wait(unsigned slot) override {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return !slots_[slot].busy; });
    return {};
  }
  // A submission is 128 MiB of the 2 GiB of a bench, as 1 GiB would be of 16.
  Status hash(std::span<const gpu::Hashed> bos, uint32_t chunk_bytes,
              const gpu::TakeHashes& take) override {
    if (rates_.hashes <= 0) return Error(ENOTSUP, "no hashes");
    const size_t most = (128u << 20) / chunk_bytes;
    std::vector<gpu::ChunkHash> hashes;
    Clock::time_point end = Clock::now();
    const auto give = [&] {
      const std::chrono::duration<double> time(static_cast<double>(hashes.size() * chunk_bytes) /
                                               rates_.hashes);
      end += std::chrono::duration_cast<Clock::duration>(time);
      std::this_thread::sleep_until(end);
      const bool more = take(hashes);
      hashes.clear();
      return more;
    };
    for (const gpu::Hashed& one : bos)
      for (uint64_t at = 0; at < one.size; at += chunk_bytes) {
        hashes.push_back(known_(static_cast<Memory*>(one.bo)->bytes + at));
        if (hashes.size() == most && !give()) return {};
      }
    if (!hashes.empty()) (void)give();
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    Mapping memory;
    std::vector<gpu::Piece> pieces;
    bool write = false;
    bool busy = false;
    Clock::time_point started{};
  };
  Status start(unsigned index, std::span<const gpu::Piece> pieces, bool write) {
    const std::lock_guard guard(lock_);
    Slot& slot = slots_[index];
    slot.pieces.assign(pieces.begin(), pieces.end());
    slot.write = write;
    slot.busy = true;
    slot.started = Clock::now();
    to_do_.push_back(index);
    changed_.notify_all();
    return {};
  }
  static std::byte* start_of(const Slot& slot, const gpu::Piece& piece) {
    return piece.pages ? static_cast<const Pages*>(piece.pages)->bytes : slot.memory.data();
  }
  static void copy(const Slot& slot, const gpu::Piece& piece) {
    std::byte* const memory = static_cast<Memory*>(piece.bo)->bytes + piece.offset;
    if (!slot.write)
      memcpy(start_of(slot, piece) + piece.at, memory, piece.size);
    else if (piece.zero)
      memset(memory, 0, piece.size);
    else
      memcpy(memory, start_of(slot, piece) + piece.at, piece.size);
  }
  // A link that was busy before is not late if the thread is.
  Clock::time_point reserve(const Slot& slot) {
    double bytes = 0;
    for (const gpu::Piece& piece : slot.pieces) bytes += static_cast<double>(piece.size);
    const std::chrono::duration<double> time(rates_.link > 0 ? bytes / rates_.link : 0);
    idle_since_ =
        std::max(idle_since_, slot.started) + std::chrono::duration_cast<Clock::duration>(time);
    return idle_since_;
  }
  void run() {
    std::unique_lock guard(lock_);
    while (true) {
      changed_.wait(guard, [&] { return stop_ || !to_do_.empty(); });
      if (to_do_.empty()) return;
      Slot& slot = slots_[to_do_.front()];
      to_do_.pop_front();
      guard.unlock();
      const Clock::time_point end = reserve(slot);
      for (const gpu::Piece& piece : slot.pieces) copy(slot, piece);
      if (rates_.link > 0) std::this_thread::sleep_until(end);
      guard.lock();
      slot.busy = false;
      changed_.notify_all();
    }
  }

  const EngineRates rates_;
  const KnownHash known_;
  const size_t slot_bytes_;
  Clock::time_point idle_since_{};  // of the link; only the thread uses it
  std::mutex lock_;                 // protects the members below, except the thread
  std::condition_variable changed_;
  std::deque<Slot> slots_;  // which stay where they are
  std::deque<unsigned> to_do_;
  bool stop_ = false;
  std::jthread thread_{[this] { run(); }};
};

}  // namespace amdgpu_criu::bench
