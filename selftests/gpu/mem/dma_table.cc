// SPDX-License-Identifier: GPL-2.0
#include "mem/dma_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <mutex>

namespace gpu {
namespace {

constexpr uint64_t kPage = 4096;

// Accessing a mapping beyond the end of its file raises SIGBUS.
amdgpu_criu::Status check_backing(const amdgpu_criu::Fd& memory, uint64_t offset, uint64_t size) {
  struct stat info;
  if (fstat(memory.get(), &info) != 0)
    return amdgpu_criu::Error::system("cannot stat guest memory");
  if (!S_ISREG(info.st_mode)) return amdgpu_criu::Error::of(EINVAL, "guest memory is not a file");
  const auto length = static_cast<uint64_t>(info.st_size);
  if (offset > length || size > length - offset)
    return amdgpu_criu::Error::of(EINVAL, "guest memory ends at {:#x}, before {:#x}+{:#x}", length,
                                  offset, size);
  return {};
}

}  // namespace

amdgpu_criu::Status DmaTable::check_free(const Range& range) const {
  if (regions_.size() >= kMaxRegions) return amdgpu_criu::Error::of(ENOSPC, "too many DMA ranges");
  const auto next = regions_.lower_bound(range.iova);
  if (next != regions_.end() && next->first - range.iova < range.size)
    return amdgpu_criu::Error::of(EEXIST, "DMA range {:#x}+{:#x} overlaps {:#x}", range.iova,
                                  range.size, next->first);
  if (next == regions_.begin()) return {};
  const auto before = std::prev(next);
  if (range.iova - before->first < before->second.size)
    return amdgpu_criu::Error::of(EEXIST, "DMA range {:#x} lies in {:#x}+{:#x}", range.iova,
                                  before->first, before->second.size);
  return {};
}

amdgpu_criu::Status DmaTable::map(const Range& range, std::optional<amdgpu_criu::Fd> memory,
                                  uint64_t offset) {
  if (range.size == 0 || range.iova % kPage || range.size % kPage || offset % kPage)
    return amdgpu_criu::Error::of(EINVAL,
                                  "DMA range {:#x}+{:#x} at {:#x} is empty or not page-aligned",
                                  range.iova, range.size, offset);
  if (range.size - 1 > std::numeric_limits<uint64_t>::max() - range.iova)
    return amdgpu_criu::Error::of(EINVAL, "DMA range {:#x}+{:#x} wraps", range.iova, range.size);

  Region region{range.size, range.readable, range.writable, {}};
  if (memory && (range.readable || range.writable)) {
    TRY(check_backing(*memory, offset, range.size));
    const int protection = PROT_READ | (range.writable ? PROT_WRITE : 0);
    region.memory = TRY(amdgpu_criu::Mapping::map(range.size, protection, MAP_SHARED, memory->get(),
                                                  static_cast<off_t>(offset)));
  }
  const std::unique_lock lock(mutex_);
  TRY(check_free(range));
  regions_.emplace(range.iova, std::move(region));
  return {};
}

// The old epoch is returned, so that the caller frees it outside the lock.
std::shared_ptr<DmaTable::Epoch> DmaTable::retire(Regions::iterator first, Regions::iterator last) {
  auto old = std::exchange(epoch_, std::make_shared<Epoch>());
  for (auto it = first; it != last; ++it)
    if (it->second.memory.data()) old->retired.push_back(std::move(it->second.memory));
  regions_.erase(first, last);
  old->next = epoch_;
  return old;
}

amdgpu_criu::Status DmaTable::unmap(uint64_t iova, uint64_t size) {
  if (size == 0 || size - 1 > std::numeric_limits<uint64_t>::max() - iova)
    return amdgpu_criu::Error::of(EINVAL, "cannot unmap {:#x}+{:#x}", iova, size);
  const uint64_t last = iova + (size - 1);
  std::shared_ptr<Epoch> grave;
  const std::unique_lock lock(mutex_);
  const auto first = regions_.lower_bound(iova);
  const auto end = regions_.upper_bound(last);
  if (first != regions_.begin()) {
    const auto before = std::prev(first);
    if (before->first + (before->second.size - 1) >= iova)
      return amdgpu_criu::Error::of(EINVAL, "unmapping {:#x} would cut {:#x}", iova, before->first);
  }
  if (first == end)
    return amdgpu_criu::Error::of(ENOENT, "nothing is mapped at {:#x}+{:#x}", iova, size);
  const auto tail = std::prev(end);
  if (tail->first + (tail->second.size - 1) > last)
    return amdgpu_criu::Error::of(EINVAL, "unmapping up to {:#x} would cut {:#x}", last,
                                  tail->first);
  grave = retire(first, end);
  return {};
}

void DmaTable::clear() {
  std::shared_ptr<Epoch> grave;
  const std::unique_lock lock(mutex_);
  grave = retire(regions_.begin(), regions_.end());
}

std::span<std::byte> DmaTable::find(uint64_t iova, size_t size, bool for_write) const {
  const std::shared_lock lock(mutex_);
  auto it = regions_.upper_bound(iova);
  if (it == regions_.begin()) return {};
  --it;
  const Region& region = it->second;
  const uint64_t offset = iova - it->first;
  if (offset >= region.size || !region.memory.data()) return {};
  if (!(for_write ? region.writable : region.readable)) return {};
  return region.memory.bytes().subspan(offset, std::min<uint64_t>(size, region.size - offset));
}

std::shared_ptr<const void> DmaTable::hold() const {
  const std::shared_lock lock(mutex_);
  return epoch_;
}

size_t DmaTable::regions() const {
  const std::shared_lock lock(mutex_);
  return regions_.size();
}

}  // namespace gpu
