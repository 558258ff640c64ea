// SPDX-License-Identifier: GPL-2.0
#include "gpu/mapped_bo.h"

namespace amdgpu_criu::gpu {

constexpr uint64_t kAccess =
    AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;

Result<std::unique_ptr<MappedBo>> MappedBo::create(amdgpu_device* device, DrmBo handle,
                                                   uint64_t size) {
  std::unique_ptr<MappedBo> bo(new MappedBo(device, std::move(handle), size));
  TRY(checked(amdgpu_va_range_alloc(device, amdgpu_gpu_va_range_general, size, kGpuPage, 0,
                                    &bo->address_, &bo->range_, 0),
              "cannot reserve GPU addresses"));
  TRY(bo->change_mapping(kAccess, AMDGPU_VA_OP_MAP));
  bo->mapped_ = true;
  return bo;
}

Result<std::unique_ptr<MappedBo>> MappedBo::allocate(amdgpu_device* device, uint64_t bytes) {
  const uint64_t size = round_up(bytes, kGpuPage);
  return create(device, TRY(allocate_bo(device, AMDGPU_GEM_DOMAIN_GTT, 0, size)), size);
}

MappedBo::~MappedBo() {
  if (cpu_) amdgpu_bo_cpu_unmap(handle());
  if (mapped_) (void)change_mapping(0, AMDGPU_VA_OP_UNMAP);
  handle_.reset();
  if (range_) amdgpu_va_range_free(range_);
}

Result<std::span<std::byte>> MappedBo::map_for_cpu() {
  TRY(checked(amdgpu_bo_cpu_map(handle(), &cpu_), "cannot map a BO for the CPU"));
  return std::span(static_cast<std::byte*>(cpu_), size_);
}

// Page tables are written by the next submission, for all BOs together, and cleared when the
// handle is closed.
Status MappedBo::change_mapping(uint64_t access, uint32_t operation) {
  return checked(amdgpu_bo_va_op_raw(device_, handle(), 0, size_, address_,
                                     access | AMDGPU_VM_DELAY_UPDATE, operation),
                 "cannot map a BO on the GPU");
}

}  // namespace amdgpu_criu::gpu
