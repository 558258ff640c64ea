// SPDX-License-Identifier: GPL-2.0
// Translations of one VMID that a hub has looked up. As in hardware, only an invalidation empties
// it. Without one, engines use the old memory after a change of page tables.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "mem/page_walker.h"

namespace gpu {

// Any thread.
class Tlb {
 public:
  static constexpr uint64_t kPage = 4096;

  // To be called before page tables are read. A translation from before an invalidation is not kept
  // after it.
  uint64_t epoch() const { return epoch_; }
  // page: address of a page. The run begins there and has whole pages.
  std::optional<PhysicalRun> find(uint64_t page, bool for_write) const;
  void insert(uint64_t page, bool for_write, const PhysicalRun& run, uint64_t epoch);
  void invalidate() { ++epoch_; }

 private:
  struct Entry {
    uint64_t epoch = 0;
    uint64_t page = 0;
    bool for_write = false;
    PhysicalRun run = {};
  };
  static constexpr size_t kEntries = 512;

  static size_t index(uint64_t page, bool for_write) {
    return (page / kPage * 2 + for_write) % kEntries;
  }

  std::atomic<uint64_t> epoch_ = 1;
  mutable std::mutex mutex_;
  std::array<Entry, kEntries> entries_;
};

}  // namespace gpu
