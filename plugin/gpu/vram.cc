// SPDX-License-Identifier: GPL-2.0
#include "gpu/vram.h"

#include "gpu/drm.h"

namespace amdgpu_criu::gpu {

Result<Fd> allocate_vram(const Fd& render_node, uint64_t bytes) {
  const Device device = TRY(open_device(render_node));
  const Bo bo = TRY(
      allocate_bo(device.get(), AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS, bytes));
  uint32_t shared = 0;
  TRY(checked(amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_dma_buf_fd, &shared),
              "cannot export VRAM as a dma-buf"));
  return Fd(static_cast<int>(shared));
}

}  // namespace amdgpu_criu::gpu
