// SPDX-License-Identifier: GPL-2.0
#include "gpu/vram.h"

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <cstring>
#include <memory>

namespace gpu {
namespace {

using base::Error;
using base::Fd;
using base::Result;
using base::Status;

constexpr uint64_t kGpuPage = 4096;

struct DeviceCloser {
  void operator()(amdgpu_device* device) const { amdgpu_device_deinitialize(device); }
};
struct BoCloser {
  void operator()(amdgpu_bo* bo) const { amdgpu_bo_free(bo); }
};

// libdrm returns negated errno values.
Status checked(int result, const char* what) {
  if (result == 0) return {};
  return Error::of(-result, "{}: {}", what, strerror(-result));
}

}  // namespace

Result<Fd> allocate_vram(const Fd& render_node, uint64_t bytes) {
  uint32_t major = 0, minor = 0, shared = 0;
  amdgpu_device_handle device = nullptr;
  TRY(checked(amdgpu_device_initialize(render_node.get(), &major, &minor, &device),
              "cannot initialize the GPU"));
  const std::unique_ptr<amdgpu_device, DeviceCloser> device_owner(device);
  amdgpu_bo_alloc_request request{};
  request.alloc_size = bytes;
  request.phys_alignment = kGpuPage;
  request.preferred_heap = AMDGPU_GEM_DOMAIN_VRAM;
  request.flags = AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
  amdgpu_bo_handle bo = nullptr;
  TRY(checked(amdgpu_bo_alloc(device, &request, &bo), "cannot allocate VRAM"));
  const std::unique_ptr<amdgpu_bo, BoCloser> bo_owner(bo);
  TRY(checked(amdgpu_bo_export(bo, amdgpu_bo_handle_type_dma_buf_fd, &shared),
              "cannot export VRAM as a dma-buf"));
  return Fd(static_cast<int>(shared));
}

}  // namespace gpu
