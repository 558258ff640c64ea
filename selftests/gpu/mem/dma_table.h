// SPDX-License-Identifier: GPL-2.0
// The guest's RAM: the guest-physical ranges that the bus announces, backed by shared memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace gpu {

// Any thread. Lookups share a lock that map and unmap hold exclusively only for a moment: an unmap
// does not wait for copies in progress, see hold().
class DmaTable {
 public:
  static constexpr size_t kMaxRegions = 65535;

  struct Range {
    uint64_t iova;
    uint64_t size;
    bool readable = true;
    bool writable = true;
  };

  DmaTable() : epoch_(std::make_shared<Epoch>()) {}

  // Without a descriptor, the range is registered but has no memory here (another device's BAR).
  amdgpu_criu::Status map(const Range& range, std::optional<amdgpu_criu::Fd> memory,
                          uint64_t offset);
  // Removes every range inside [iova, iova + size). Fails if that would cut a range in two.
  amdgpu_criu::Status unmap(uint64_t iova, uint64_t size);
  void clear();

  // The longest prefix of the range that is contiguous here; empty if no range allows the access.
  std::span<std::byte> find(uint64_t iova, size_t size, bool for_write) const;
  // Memory that find() returns from now on stays mapped until the last holder releases it.
  std::shared_ptr<const void> hold() const;
  size_t regions() const;

 private:
  struct Region {
    uint64_t size = 0;
    bool readable = false;
    bool writable = false;
    amdgpu_criu::Mapping memory;
  };
  // A removed mapping is kept by the epoch in which it was removed. An epoch keeps its successors
  // alive, so a hold keeps every mapping that is removed after it.
  struct Epoch {
    std::vector<amdgpu_criu::Mapping> retired;
    std::shared_ptr<Epoch> next;
  };
  using Regions = std::map<uint64_t, Region>;

  amdgpu_criu::Status check_free(const Range& range) const;
  std::shared_ptr<Epoch> retire(Regions::iterator first, Regions::iterator last);

  mutable std::shared_mutex mutex_;
  Regions regions_;
  std::shared_ptr<Epoch> epoch_;
};

}  // namespace gpu
