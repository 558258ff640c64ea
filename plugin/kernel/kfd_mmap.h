// SPDX-License-Identifier: GPL-2.0
// Offsets for mmap() of /dev/kfd, as in the driver's kfd_priv.h: a type in the top two bits, and
// below it the GPU: as the process knows it on a kernel with the amdgpu-criu series, and as the
// machine does on others.
#pragma once

#include <cstdint>

namespace amdgpu_criu::kernel {

enum class KfdMapping : uint64_t { kMmio = 0, kReserved = 1, kEvents = 2, kDoorbell = 3 };

inline constexpr unsigned kKfdTypeShift = 62;
inline constexpr unsigned kKfdGpuShift = 46;
inline constexpr uint64_t kKfdGpuMask = 0xffffull << kKfdGpuShift;
// A process's doorbells on a GPU since gfx9.
inline constexpr uint64_t kDoorbellSlice = 8192;

inline KfdMapping kfd_mapping_type(uint64_t offset) {
  return static_cast<KfdMapping>(offset >> kKfdTypeShift);
}
inline uint32_t kfd_mapping_gpu(uint64_t offset) {
  return static_cast<uint32_t>((offset & kKfdGpuMask) >> kKfdGpuShift);
}
inline bool is_inside_kfd_mapping(uint64_t offset) {
  return (offset & ((1ull << kKfdGpuShift) - 1)) != 0;
}
inline uint64_t with_kfd_mapping_gpu(uint64_t offset, uint32_t gpu_id) {
  return (offset & ~kKfdGpuMask) | (static_cast<uint64_t>(gpu_id) << kKfdGpuShift & kKfdGpuMask);
}

}  // namespace amdgpu_criu::kernel
