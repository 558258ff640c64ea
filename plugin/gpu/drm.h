// SPDX-License-Identifier: GPL-2.0
// The part of libdrm_amdgpu that this folder uses, with owners, and with errors that name the
// failure. Other folders do not use libdrm.
#pragma once

#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::gpu {

inline constexpr uint64_t kGpuPage = 4096;

// libdrm returns negated errno values.
Status checked(int result, const char* what);

struct DeviceCloser {
  void operator()(amdgpu_device* device) const { amdgpu_device_deinitialize(device); }
};
using DrmDevice = std::unique_ptr<amdgpu_device, DeviceCloser>;

// libdrm keeps a duplicate of the descriptor.
Result<DrmDevice> open_device(const Fd& render_node);

struct BoCloser {
  void operator()(amdgpu_bo* bo) const { amdgpu_bo_free(bo); }
};
using DrmBo = std::unique_ptr<amdgpu_bo, BoCloser>;

// heap: AMDGPU_GEM_DOMAIN_*; flags: AMDGPU_GEM_CREATE_*.
Result<DrmBo> allocate_bo(amdgpu_device* device, uint32_t heap, uint64_t flags, uint64_t bytes);

}  // namespace amdgpu_criu::gpu
