// SPDX-License-Identifier: GPL-2.0
#include "gpu/mapped_bo.h"

#include <xf86drm.h>

namespace amdgpu_criu::gpu {

namespace {

constexpr uint64_t kAccess =
    AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE;
// The kernel takes the pages now, and takes them again if the mapping changes. It refuses pages of
// files only with AMDGPU_GEM_USERPTR_ANONONLY, which libdrm sets.
constexpr uint32_t kPages = AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE;

}  // namespace

Result<std::unique_ptr<MappedBo>> MappedBo::create(amdgpu_device* device, DrmBo handle,
                                                   uint64_t size) {
  std::unique_ptr<MappedBo> bo(new MappedBo(device, size));
  bo->bo_ = std::move(handle);
  TRY(checked(amdgpu_bo_export(bo->bo_.get(), amdgpu_bo_handle_type_kms, &bo->handle_),
              "cannot get the handle of a BO"));
  TRY(bo->map(kAccess));
  return bo;
}

Result<std::unique_ptr<MappedBo>> MappedBo::of_pages(amdgpu_device* device,
                                                     std::span<const std::byte> pages,
                                                     PageUse use) {
  std::unique_ptr<MappedBo> bo(new MappedBo(device, pages.size()));
  bo->writable_ = use == PageUse::kWrite;
  drm_amdgpu_gem_userptr request{};
  request.addr = reinterpret_cast<uintptr_t>(pages.data());
  request.size = pages.size();
  request.flags = kPages | (bo->writable_ ? 0 : AMDGPU_GEM_USERPTR_READONLY);
  TRY(checked(drmCommandWriteRead(amdgpu_device_get_fd(device), DRM_AMDGPU_GEM_USERPTR, &request,
                                  sizeof(request)),
              "cannot make pages known to the GPU"));
  bo->handle_ = request.handle;
  TRY(bo->map(bo->writable_ ? kAccess : AMDGPU_VM_PAGE_READABLE));
  return bo;
}

Result<std::unique_ptr<MappedBo>> MappedBo::allocate(amdgpu_device* device, uint64_t bytes) {
  const uint64_t size = round_up(bytes, kGpuPage);
  return create(device, TRY(allocate_bo(device, AMDGPU_GEM_DOMAIN_GTT, 0, size)), size);
}

MappedBo::~MappedBo() {
  if (cpu_) amdgpu_bo_cpu_unmap(bo_.get());
  if (mapped_) (void)change_mapping(0, AMDGPU_VA_OP_UNMAP);
  if (!bo_ && handle_) (void)drmCloseBufferHandle(amdgpu_device_get_fd(device_), handle_);
  bo_.reset();
  if (range_) amdgpu_va_range_free(range_);
}

Result<std::span<std::byte>> MappedBo::map_for_cpu() {
  TRY(checked(amdgpu_bo_cpu_map(bo_.get(), &cpu_), "cannot map a BO for the CPU"));
  return std::span(static_cast<std::byte*>(cpu_), size_);
}

Status MappedBo::map(uint64_t access) {
  TRY(checked(amdgpu_va_range_alloc(device_, amdgpu_gpu_va_range_general, size_, kGpuPage, 0,
                                    &address_, &range_, 0),
              "cannot reserve GPU addresses"));
  TRY(change_mapping(access, AMDGPU_VA_OP_MAP));
  mapped_ = true;
  return {};
}

// Page tables are written by the next submission, for all BOs together, and cleared when the
// handle is closed.
Status MappedBo::change_mapping(uint64_t access, uint32_t operation) {
  drm_amdgpu_gem_va request{};
  request.handle = handle_;
  request.operation = operation;
  request.flags = static_cast<uint32_t>(access | AMDGPU_VM_DELAY_UPDATE);
  request.va_address = address_;
  request.map_size = size_;
  return checked(
      drmCommandWrite(amdgpu_device_get_fd(device_), DRM_AMDGPU_GEM_VA, &request, sizeof(request)),
      "cannot map a BO on the GPU");
}

}  // namespace amdgpu_criu::gpu
