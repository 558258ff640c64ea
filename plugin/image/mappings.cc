// SPDX-License-Identifier: GPL-2.0
#include "image/mappings.h"

#include <algorithm>

#include "kernel/kfd_mmap.h"

namespace image {
namespace {

using base::Error;
using kernel::KfdMapping;

bool covers(const kernel::Bo& bo, const Vma& vma) {
  return bo.mmap_offset != ~0ull && vma.offset >= bo.mmap_offset &&
         vma.offset - bo.mmap_offset < bo.size &&
         vma.end - vma.start <= bo.size - (vma.offset - bo.mmap_offset);
}

bool is_on_kfd(const kernel::Bo& bo) {
  return bo.flags & (AMDGPU_CRIU_BO_DOORBELL | AMDGPU_CRIU_BO_MMIO);
}

// Of /dev/kfd, the event page and doorbells may be mapped without there being a BO.
bool is_known_without_bo(const Process& process, const Vma& vma) {
  if (!vma.kfd) return false;
  const KfdMapping type = kernel::kfd_mapping_type(vma.offset);
  if (type == KfdMapping::kEvents) return true;
  const uint32_t gpu_id = kernel::kfd_mapping_gpu(vma.offset);
  return (type == KfdMapping::kDoorbell || type == KfdMapping::kMmio) &&
         std::ranges::count(process.devices, gpu_id, &Device::actual_gpu_id) > 0;
}

}  // namespace

const kernel::Bo* find_bo(const Process& process, const Vma& vma) {
  auto shows = [&](const kernel::Bo& bo) {
    return is_on_kfd(bo) == vma.kfd && (vma.kfd || bo.gpu_id == vma.gpu_id) && covers(bo, vma);
  };
  auto found = std::ranges::find_if(process.bos, shows);
  return found == process.bos.end() ? nullptr : &*found;
}

Status check_mapping(const Process& process, const Vma& vma) {
  if (find_bo(process, vma) || is_known_without_bo(process, vma)) return {};
  return Error::of(EOPNOTSUPP,
                   "process {} ({}) maps offset {:#x} of {} at {:#x}, which is not memory that KFD "
                   "knows; such mappings cannot be carried yet",
                   process.pid, process.comm, vma.offset,
                   vma.kfd ? std::string("/dev/kfd") : std::format("GPU {:#x}", vma.gpu_id),
                   vma.start);
}

Result<uint64_t> restored_offset(const Process& process, const Vma& vma,
                                 const topology::Assignment& targets) {
  if (const kernel::Bo* bo = find_bo(process, vma))
    return bo->new_mmap_offset + (vma.offset - bo->mmap_offset);
  TRY(check_mapping(process, vma));
  const uint32_t gpu_id = kernel::kfd_mapping_gpu(vma.offset);
  if (kernel::kfd_mapping_type(vma.offset) == KfdMapping::kEvents && gpu_id == 0) return vma.offset;
  auto target = targets.find(gpu_id);
  if (target == targets.end())
    return Error::of(ENODEV, "a mapping of /dev/kfd is of unknown GPU {:#x}", gpu_id);
  return kernel::with_kfd_mapping_gpu(vma.offset, target->second);
}

}  // namespace image
