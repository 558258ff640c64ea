// SPDX-License-Identifier: GPL-2.0
#include "image/mappings.h"

#include <algorithm>

#include "kernel/kfd_mmap.h"

namespace image {
namespace {

using base::Error;
using kernel::KfdMapping;

bool is_on_kfd(const kernel::Bo& bo) {
  return bo.flags & (AMDGPU_CRIU_BO_DOORBELL | AMDGPU_CRIU_BO_MMIO);
}

}  // namespace

void MappingIndex::add(Space space, const kernel::Bo& bo, Place place) {
  if (bo.mmap_offset != ~0ull) spaces_[space].emplace(bo.mmap_offset, Entry{bo.size, place});
}

void MappingIndex::add(const Process& process) {
  for (size_t i = 0; i < process.bos.size(); i++) {
    const kernel::Bo& bo = process.bos[i];
    const Device* device = find_device(process, bo.gpu_id);
    if (!device) continue;
    const Space space =
        is_on_kfd(bo) ? Space{true, process.index} : Space{false, device->actual_gpu_id};
    add(space, bo, {{false, process.index}, i});
  }
}

// Whatever device a BO was allocated on, its offset is one of the file's device.
void MappingIndex::add(const Render& render) {
  for (size_t i = 0; i < render.bos.size(); i++)
    add({false, render.gpu.gpu_id}, render.bos[i], {{true, render.index}, i});
}

std::vector<Place> MappingIndex::find(const Process& process, const Vma& vma) const {
  std::vector<Place> result;
  const auto space = spaces_.find({vma.kfd, vma.kfd ? process.index : vma.gpu_id});
  if (space == spaces_.end()) return result;
  const auto& entries = space->second;
  auto after = entries.upper_bound(vma.offset);
  if (after == entries.begin()) return result;
  const uint64_t start = std::prev(after)->first;
  for (auto entry = entries.lower_bound(start); entry != after; ++entry) {
    const uint64_t skipped = vma.offset - start;
    if (skipped < entry->second.size && vma.end - vma.start <= entry->second.size - skipped)
      result.push_back(entry->second.place);
  }
  return result;
}

bool is_known_without_bo(const Process& process, const Vma& vma) {
  if (!vma.kfd || !process.blob) return false;
  const KfdMapping type = kernel::kfd_mapping_type(vma.offset);
  if (type == KfdMapping::kEvents) return true;
  const uint32_t gpu_id = kernel::kfd_mapping_gpu(vma.offset);
  return (type == KfdMapping::kDoorbell || type == KfdMapping::kMmio) &&
         std::ranges::count(process.devices, gpu_id, &Device::actual_gpu_id) > 0;
}

Result<uint64_t> restored_kfd_offset(const Vma& vma, const topology::Assignment& targets) {
  const uint32_t gpu_id = kernel::kfd_mapping_gpu(vma.offset);
  if (kernel::kfd_mapping_type(vma.offset) == KfdMapping::kEvents && gpu_id == 0) return vma.offset;
  const auto target = targets.find(gpu_id);
  if (target == targets.end())
    return Error::of(ENODEV, "a mapping of /dev/kfd is of unknown GPU {:#x}", gpu_id);
  return kernel::with_kfd_mapping_gpu(vma.offset, target->second);
}

Status check_mapping(const MappingIndex& index, const Process& process, const Vma& vma) {
  if (is_known_without_bo(process, vma) || !index.find(process, vma).empty()) return {};
  return Error::of(
      EOPNOTSUPP,
      "process {} ({}) maps offset {:#x} of {} at {:#x}, which is not memory of a BO "
      "that any open file knows (was its handle closed after it was mapped?); such a "
      "mapping cannot be carried",
      process.pid, process.comm, vma.offset,
      vma.kfd ? std::string("/dev/kfd") : base::format("the render node of GPU {:#x}", vma.gpu_id),
      vma.start);
}

const Device* find_device(const Process& process, uint32_t gpu_id) {
  auto found = std::ranges::find(process.devices, gpu_id, &Device::gpu_id);
  return found == process.devices.end() ? nullptr : &*found;
}

}  // namespace image
