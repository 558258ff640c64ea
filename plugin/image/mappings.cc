// SPDX-License-Identifier: GPL-2.0
#include "image/mappings.h"

#include <algorithm>

#include "kernel/kernel_api.h"

namespace amdgpu_criu::image {
namespace {

using kernel::KfdMapping;

bool is_on_kfd(const kernel::Bo& bo) {
  return bo.flags & (AMDGPU_CRIU_BO_DOORBELL | AMDGPU_CRIU_BO_MMIO);
}

// KFD maps doorbells only as a whole. GPUs before gfx9 have half as many.
bool is_part_of_doorbells(const Process& process, const Vma& vma) {
  constexpr uint64_t kFirstGfx9 = 90000;
  if (kernel::kfd_mapping_type(vma.offset) != KfdMapping::kDoorbell) return false;
  const Device* device = find_device(process, vma.gpu_id);
  return device && device->gpu.property("gfx_target_version") >= kFirstGfx9 &&
         vma.end - vma.start < kernel::kDoorbellSlice;
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

// The offset of a BO belongs to the device of the file, even if the BO was allocated on another
// one.
void MappingIndex::add(const Render& render) {
  renders_.insert(render.gpu.gpu_id);
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

bool MappingIndex::is_part(const Process& process, const Vma& vma) const {
  if (vma.kfd)
    return kernel::is_inside_kfd_mapping(vma.offset) || is_part_of_doorbells(process, vma);
  const auto space = spaces_.find({false, vma.gpu_id});
  return space == spaces_.end() || !space->second.contains(vma.offset);
}

uint32_t gpu_of_kfd_offset(const Process& process, uint64_t offset, bool by_machine) {
  const uint32_t named = kernel::kfd_mapping_gpu(offset);
  const auto device = std::ranges::find(process.devices, named,
                                        by_machine ? &Device::actual_gpu_id : &Device::gpu_id);
  return device == process.devices.end() ? 0 : device->gpu_id;
}

bool is_known_without_bo(const Process& process, const Vma& vma) {
  if (!vma.kfd || !process.blob) return false;
  const KfdMapping type = kernel::kfd_mapping_type(vma.offset);
  if (type == KfdMapping::kEvents) return true;
  return (type == KfdMapping::kDoorbell || type == KfdMapping::kMmio) &&
         find_device(process, vma.gpu_id) != nullptr;
}

Result<uint64_t> restored_kfd_offset(const Process& process, const Vma& vma,
                                     const topology::Assignment* targets) {
  if (kernel::kfd_mapping_type(vma.offset) == KfdMapping::kEvents) return vma.offset;
  const Device* device = find_device(process, vma.gpu_id);
  const auto target = device && targets ? targets->find(device->actual_gpu_id)
                                        : topology::Assignment::const_iterator();
  if (!device || (targets && target == targets->end()))
    return Error::of(ENODEV, "a mapping of /dev/kfd is of unknown GPU {:#x}", vma.gpu_id);
  return kernel::with_kfd_mapping_gpu(vma.offset, targets ? target->second : device->gpu_id);
}

bool is_freed(const MappingIndex& index, const Process& process, const Vma& vma) {
  return !vma.kfd && vma.inaccessible && index.has_render(vma) && index.find(process, vma).empty();
}

Status check_mapping(const MappingIndex& index, const Process& process, const Vma& vma,
                     bool parts) {
  if (is_freed(index, process, vma)) return {};
  const std::string node =
      vma.kfd ? std::string("/dev/kfd") : formatted("the render node of GPU {:#x}", vma.gpu_id);
  const bool is_known = is_known_without_bo(process, vma);
  const auto places = index.find(process, vma);
  if (!is_known && places.empty())
    return Error::of(
        EOPNOTSUPP,
        "process {} ({}) maps offset {:#x} of {} at {:#x}, which is not memory of a BO "
        "of any open file (its handle may have been closed after the mapping); such a "
        "mapping cannot be carried",
        process.pid, process.comm, vma.offset, node, vma.start);
  if (parts || !index.is_part(process, vma)) return {};
  return Error::of(
      EOPNOTSUPP,
      "process {} ({}) has only a part of a mapping of {} at {:#x}: it was split by munmap(), "
      "mprotect(), mremap() or madvise(); the amdgpu module of this kernel cannot map it again",
      process.pid, process.comm, node, vma.start);
}

const Device* find_device(const Process& process, uint32_t gpu_id) {
  auto found = std::ranges::find(process.devices, gpu_id, &Device::gpu_id);
  return found == process.devices.end() ? nullptr : &*found;
}

}  // namespace amdgpu_criu::image
