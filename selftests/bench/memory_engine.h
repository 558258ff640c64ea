// SPDX-License-Identifier: GPL-2.0
// A fake GPU: plain memory, and a thread that copies one slot after the other, like the ring of an
// SDMA engine, as fast as it can or at the rate of a link.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/engine.h"

namespace amdgpu_criu::bench {

struct Memory : gpu::Imported {
  explicit Memory(std::byte* start) : bytes(start) {}
  std::byte* bytes;
};

class MemoryEngine : public gpu::Engine {
 public:
  // bytes_per_second: of the link; 0: no limit.
  explicit MemoryEngine(gpu::StagingSize staging, double bytes_per_second = 0)
      : rate_(bytes_per_second), slots_(staging.slots) {
    for (Slot& slot : slots_)
      slot.memory = std::move(*Mapping::map(staging.bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE));
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
  std::span<std::byte> staging(unsigned slot) override { return slots_[slot].memory.bytes(); }
  Result<std::unique_ptr<gpu::Imported>> import(const Fd&, uint64_t) override {
    return Error(ENOTSUP, "memory is not imported");
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
  static void copy(const Slot& slot, const gpu::Piece& piece) {
    std::byte* const memory = static_cast<Memory*>(piece.bo)->bytes + piece.offset;
    if (!slot.write)
      memcpy(slot.memory.data() + piece.at, memory, piece.size);
    else if (piece.zero)
      memset(memory, 0, piece.size);
    else
      memcpy(memory, slot.memory.data() + piece.at, piece.size);
  }
  // A link that was busy before is not late if the thread is.
  Clock::time_point reserve(const Slot& slot) {
    double bytes = 0;
    for (const gpu::Piece& piece : slot.pieces) bytes += static_cast<double>(piece.size);
    const std::chrono::duration<double> time(rate_ > 0 ? bytes / rate_ : 0);
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
      if (rate_ > 0) std::this_thread::sleep_until(end);
      guard.lock();
      slot.busy = false;
      changed_.notify_all();
    }
  }

  const double rate_;
  Clock::time_point idle_since_{};  // of the link; only the thread uses it
  std::mutex lock_;                 // protects the members below, except the thread
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::deque<unsigned> to_do_;
  bool stop_ = false;
  std::jthread thread_{[this] { run(); }};
};

}  // namespace amdgpu_criu::bench
