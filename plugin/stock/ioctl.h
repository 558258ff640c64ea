// SPDX-License-Identifier: GPL-2.0
// AMDKFD_IOC_CRIU_OP, which KFD has had since Linux 5.18: the interface of kernels without our
// series, and of images of CRIU's own plugin. It has no session: it returns dma-buf descriptors of
// all BOs at once, and a paused process stays paused until UNPAUSE.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernel/kernel_api.h"

namespace amdgpu_criu::stock {

// KFD's flags of a BO for the kind of its memory.
inline constexpr uint32_t kVram = 1u << 0;
inline constexpr uint32_t kGtt = 1u << 1;
inline constexpr uint32_t kUserptr = 1u << 2;
inline constexpr uint32_t kDoorbell = 1u << 3;
inline constexpr uint32_t kMmio = 1u << 4;

// PROCESS_INFO returns these, and CHECKPOINT takes them as arguments.
struct Sizes {
  pid_t pid = 0;  // in the process's own pid namespace
  uint32_t devices = 0;
  uint32_t bos = 0;
  uint32_t objects = 0;
  uint64_t private_data = 0;
};

struct Device {
  uint32_t gpu_id = 0;  // as the process knows it
  uint32_t actual_gpu_id = 0;
};

struct Bo {
  uint64_t va = 0;
  uint64_t size = 0;
  uint64_t mmap_offset = 0;
  uint32_t gpu_id = 0;  // as Device::gpu_id
  uint32_t alloc_flags = 0;
  // Returned by the kernel: the descriptor for VRAM and GTT; the offset at restore.
  uint64_t new_mmap_offset = 0;
  Fd dmabuf;
};

struct State {
  std::vector<Device> devices;
  std::vector<Bo> bos;
  uint32_t objects = 0;
  std::vector<std::byte> private_data;
};

class Ioctl {
 public:
  virtual ~Ioctl() = default;

  // Not idempotent: a process that was paused twice can never be unpaused.
  virtual Result<Sizes> process_info(int kfd, const kernel::Interrupted& interrupted = {}) = 0;
  virtual Result<State> checkpoint(int kfd, const Sizes& sizes) = 0;
  virtual Status unpause(int kfd) = 0;
  virtual Status restore(int kfd, std::span<const kernel::RestoreDevice> devices, State& state) = 0;
  virtual Status resume(int kfd, pid_t pid) = 0;

  // The number of GEM handles of the file. Fails with ENOTTY if the kernel does not report it
  // (before 6.18).
  virtual Result<uint32_t> count_gem_handles(int render) = 0;
};

std::unique_ptr<Ioctl> make_ioctl();

}  // namespace amdgpu_criu::stock
