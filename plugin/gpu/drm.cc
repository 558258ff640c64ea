// SPDX-License-Identifier: GPL-2.0
#include "gpu/drm.h"

#include <sys/ioctl.h>

#include <cstring>

#include "gpu/engine.h"

namespace amdgpu_criu::gpu {

Status checked(int result, const char* what) {
  if (result == 0) return {};
  return Error::of(-result, "{}: {}", what, strerror(-result));
}

Result<DrmDevice> open_device(const Fd& render_node) {
  uint32_t major = 0, minor = 0;
  amdgpu_device_handle device = nullptr;
  TRY(checked(amdgpu_device_initialize(render_node.get(), &major, &minor, &device),
              "cannot initialize the GPU"));
  return DrmDevice(device);
}

Result<DrmBo> allocate_bo(amdgpu_device* device, uint32_t heap, uint64_t flags, uint64_t bytes) {
  amdgpu_bo_alloc_request request{};
  request.alloc_size = bytes;
  request.phys_alignment = kGpuPage;
  request.preferred_heap = heap;
  request.flags = flags;
  amdgpu_bo_handle bo = nullptr;
  TRY(checked(amdgpu_bo_alloc(device, &request, &bo),
              heap == AMDGPU_GEM_DOMAIN_VRAM ? "cannot allocate VRAM" : "cannot allocate GTT"));
  return DrmBo(bo);
}

// Without libdrm, which would create more than this needs.
Result<uint32_t> count_losses(const Fd& render_node) {
  uint32_t count = 0;
  drm_amdgpu_info request{};
  request.return_pointer = reinterpret_cast<uintptr_t>(&count);
  request.return_size = sizeof(count);
  request.query = AMDGPU_INFO_VRAM_LOST_COUNTER;
  if (ioctl(render_node.get(), DRM_IOCTL_AMDGPU_INFO, &request) != 0)
    return Error::system("cannot read how often the GPU has lost its memory");
  return count;
}

Result<Fd> allocate_vram(const Fd& render_node, uint64_t bytes) {
  const DrmDevice device = TRY(open_device(render_node));
  const DrmBo bo = TRY(
      allocate_bo(device.get(), AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS, bytes));
  uint32_t shared = 0;
  TRY(checked(amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_dma_buf_fd, &shared),
              "cannot export VRAM as a dma-buf"));
  return Fd(static_cast<int>(shared));
}

}  // namespace amdgpu_criu::gpu
