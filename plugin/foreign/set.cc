// SPDX-License-Identifier: GPL-2.0
// Converts images of CRIU's own plugin into records of ours.
#include <algorithm>

#include "foreign/images.h"
#include "stock/ioctl.h"
#include "stock/record.h"

namespace amdgpu_criu::foreign {
namespace {

uint32_t flags_of(const Bo& bo) {
  if (bo.alloc_flags & stock::kUserptr) return AMDGPU_CRIU_BO_USERPTR;
  if (bo.alloc_flags & stock::kDoorbell) return AMDGPU_CRIU_BO_DOORBELL;
  return bo.alloc_flags & stock::kMmio ? AMDGPU_CRIU_BO_MMIO : 0;
}

uint32_t domain_of(const Bo& bo) {
  if (bo.alloc_flags & stock::kVram) return AMDGPU_CRIU_DOMAIN_VRAM;
  if (bo.alloc_flags & stock::kGtt) return AMDGPU_CRIU_DOMAIN_GTT;
  return bo.alloc_flags & stock::kUserptr ? AMDGPU_CRIU_DOMAIN_CPU : AMDGPU_CRIU_DOMAIN_NONE;
}

kernel::Bo convert(const Bo& bo, uint64_t object_id) {
  kernel::Bo result{};
  result.object_id = object_id;
  result.size = bo.size;
  result.va = bo.va;
  result.gpu_id = bo.gpu_id;
  result.handle = ~0u;
  result.domain = domain_of(bo);
  result.flags = flags_of(bo);
  result.mmap_offset = bo.alloc_flags & stock::kUserptr ? ~0ull : bo.mmap_offset;
  return result;
}

// Mappings are not in the images. As in CRIU's own plugin, a BO is mapped as a whole at its GPU
// address, as the user mode of ROCm does.
image::Vma mapping_of(const Bo& bo) {
  const bool kfd = bo.alloc_flags & (stock::kDoorbell | stock::kMmio);
  return {bo.va, bo.va + bo.size, bo.mmap_offset, kfd, kfd ? 0 : bo.gpu_id};
}

image::Process convert(const Kfd& kfd, uint32_t index, uint64_t& next_object) {
  image::Process process;
  process.index = index;
  process.pid = kfd.pid;
  process.comm = "unknown";
  stock::Record record{{}, kfd.num_objects, kfd.private_data};
  for (const topology::Gpu& gpu : kfd.gpus)
    process.devices.push_back({gpu.gpu_id, gpu.gpu_id, true, gpu});
  for (const Bo& bo : kfd.bos) {
    process.bos.push_back(convert(bo, next_object++));
    record.alloc_flags.push_back(bo.alloc_flags);
    if (bo.va != 0 && !(bo.alloc_flags & stock::kUserptr)) process.vmas.push_back(mapping_of(bo));
  }
  process.blob = stock::encode(record);
  return process;
}

}  // namespace

Result<image::Set> make_set(const Images& images) {
  if (images.kfds.empty())
    return Error(EOPNOTSUPP,
                 "the images of CRIU's own amdgpu plugin are of no process that uses /dev/kfd; "
                 "files of render nodes alone cannot be restored from them");
  if (images.kfds.size() > 1)
    return Error::of(EOPNOTSUPP,
                     "the images of CRIU's own amdgpu plugin are of {} open files of /dev/kfd, and "
                     "do not say which render nodes go with which ({}, {} ...): only one can be "
                     "restored from them",
                     images.kfds.size(), images.kfds[0].name, images.kfds[1].name);
  std::map<uint32_t, image::Process> processes;
  std::map<uint32_t, image::File> files;
  uint64_t next_object = 1;
  const Kfd& kfd = images.kfds.front();
  processes.emplace(0, convert(kfd, 0, next_object));
  files.emplace(kfd.file_id, image::File{{}, kfd.file_id, 0, image::KfdFile{0}});
  for (const Render& render : images.renders) {
    if (std::ranges::count(kfd.gpus, render.gpu_id, &topology::Gpu::gpu_id) == 0)
      return Error::of(EBADMSG, "image {} is of a GPU that {} does not describe", render.name,
                       kfd.name);
    files.emplace(render.file_id,
                  image::File{{}, render.file_id, 0, image::VmFile{{0, render.gpu_id}}});
  }
  return image::Set::of(std::move(processes), std::move(files));
}

const Bo* find_object(const Images& images, uint64_t object_id) {
  for (const Kfd& kfd : images.kfds) {
    if (object_id >= 1 && object_id <= kfd.bos.size()) return &kfd.bos[object_id - 1];
    object_id -= kfd.bos.size();
  }
  return nullptr;
}

}  // namespace amdgpu_criu::foreign
