// SPDX-License-Identifier: GPL-2.0
// The only file that uses the stock ioctl's structures.
#include "stock/ioctl.h"

#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace amdgpu_criu::stock {
namespace {

static_assert(kVram == KFD_IOC_ALLOC_MEM_FLAGS_VRAM && kGtt == KFD_IOC_ALLOC_MEM_FLAGS_GTT &&
              kUserptr == KFD_IOC_ALLOC_MEM_FLAGS_USERPTR &&
              kDoorbell == KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL &&
              kMmio == KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);

// An operation that fails with EAGAIN is repeated for a second.
constexpr int kMaxAttempts = 100;
constexpr std::chrono::milliseconds kBetweenAttempts{10};
constexpr uint32_t kNoDescriptor = ~0u;
// Bounds allocations if the kernel returns wrong numbers.
constexpr uint64_t kMaxPrivateData = 1ull << 30;
constexpr uint32_t kMaxBos = 1u << 22;

// linux/amdgpu_drm.h has it since 6.18.
struct GemListHandles {
  uint64_t entries;
  uint32_t num_entries;
  uint32_t padding;
};
constexpr unsigned long kGemListHandles = _IOWR('d', 0x40 + 0x19, GemListHandles);

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

const char* name_of(uint32_t op) {
  switch (op) {
    case KFD_CRIU_OP_PROCESS_INFO:
      return "PROCESS_INFO";
    case KFD_CRIU_OP_CHECKPOINT:
      return "CHECKPOINT";
    case KFD_CRIU_OP_UNPAUSE:
      return "UNPAUSE";
    case KFD_CRIU_OP_RESTORE:
      return "RESTORE";
    case KFD_CRIU_OP_RESUME:
      return "RESUME";
  }
  return "?";
}

// The stock ioctl returns EINVAL for nearly all errors.
const char* advice_for(int code) {
  switch (code) {
    case EACCES:
      return " (CAP_CHECKPOINT_RESTORE is needed)";
    case EBADF:
      return " (the process is not traced by this one)";
    case ENODEV:
      return " (the process uses no GPU, or a GPU is missing)";
    case ESRCH:
      return " (the process has no state of /dev/kfd)";
    case EINVAL:
    case EOPNOTSUPP:
      return " (the kernel log may say more)";
    default:
      return "";
  }
}

Status call(int kfd, uint32_t op, kfd_ioctl_criu_args& args,
            const kernel::Interrupted& interrupted = {}) {
  args.op = op;
  int code = 0, attempts = 0;
  while (ioctl(kfd, AMDKFD_IOC_CRIU_OP, &args) != 0) {
    code = errno;
    if (code != EINTR && (code != EAGAIN || ++attempts == kMaxAttempts)) break;
    if (interrupted) TRY(interrupted());
    if (code == EAGAIN) std::this_thread::sleep_for(kBetweenAttempts);
    code = 0;
  }
  if (code == 0) return {};
  return Error::of(code, "stock kernel operation {} failed: {}{}", name_of(op), strerror(code),
                   advice_for(code));
}

// Except for BOs that have no dma-buf.
Fd owner_of(uint32_t descriptor) {
  return descriptor == kNoDescriptor ? Fd() : Fd(static_cast<int>(descriptor));
}

class RealIoctl : public Ioctl {
 public:
  Result<Sizes> process_info(int kfd, const kernel::Interrupted& interrupted) override {
    kfd_ioctl_criu_args args{};
    TRY(call(kfd, KFD_CRIU_OP_PROCESS_INFO, args, interrupted));
    return Sizes{static_cast<pid_t>(args.pid), args.num_devices, args.num_bos, args.num_objects,
                 args.priv_data_size};
  }

  Result<State> checkpoint(int kfd, const Sizes& sizes) override {
    if (sizes.private_data > kMaxPrivateData || sizes.bos > kMaxBos)
      return Error::of(E2BIG, "the kernel has {} BOs and {} bytes of state for one process",
                       sizes.bos, sizes.private_data);
    // One more than needed, because the kernel requires an address even for none.
    std::vector<kfd_criu_device_bucket> devices(sizes.devices + 1);
    std::vector<kfd_criu_bo_bucket> bos(sizes.bos + 1);
    State state;
    state.objects = sizes.objects;
    state.private_data.resize(sizes.private_data);
    kfd_ioctl_criu_args args{};
    args.devices = address_of(devices.data());
    args.bos = address_of(bos.data());
    args.priv_data = address_of(state.private_data.data());
    args.priv_data_size = sizes.private_data;
    args.num_devices = sizes.devices;
    args.num_bos = sizes.bos;
    args.num_objects = sizes.objects;
    TRY(call(kfd, KFD_CRIU_OP_CHECKPOINT, args));
    for (const auto& device : std::span(devices).first(sizes.devices))
      state.devices.push_back({device.user_gpu_id, device.actual_gpu_id});
    for (const auto& bo : std::span(bos).first(sizes.bos))
      state.bos.push_back(
          {bo.addr, bo.size, bo.offset, bo.gpu_id, bo.alloc_flags, 0, owner_of(bo.dmabuf_fd)});
    return state;
  }

  Status unpause(int kfd) override {
    kfd_ioctl_criu_args args{};
    return call(kfd, KFD_CRIU_OP_UNPAUSE, args);
  }

  Status restore(int kfd, std::span<const kernel::RestoreDevice> devices, State& state) override {
    std::vector<kfd_criu_device_bucket> device_buckets;
    for (const kernel::RestoreDevice& device : devices)
      device_buckets.push_back(
          {device.gpu_id, device.actual_gpu_id, static_cast<uint32_t>(device.drm_fd), 0});
    std::vector<kfd_criu_bo_bucket> bos;
    for (const Bo& bo : state.bos)
      bos.push_back(
          {bo.va, bo.size, bo.mmap_offset, 0, bo.gpu_id, bo.alloc_flags, kNoDescriptor, 0});
    kfd_ioctl_criu_args args{};
    args.devices = address_of(device_buckets.data());
    args.bos = address_of(bos.data());
    args.priv_data = address_of(state.private_data.data());
    args.priv_data_size = state.private_data.size();
    args.num_devices = device_buckets.size();
    args.num_bos = bos.size();
    args.num_objects = state.objects;
    TRY(call(kfd, KFD_CRIU_OP_RESTORE, args));
    for (size_t i = 0; i < bos.size(); i++) {
      state.bos[i].new_mmap_offset = bos[i].restored_offset;
      state.bos[i].dmabuf = owner_of(bos[i].dmabuf_fd);
    }
    return {};
  }

  Status resume(int kfd, pid_t pid) override {
    kfd_ioctl_criu_args args{};
    args.pid = static_cast<uint32_t>(pid);
    return call(kfd, KFD_CRIU_OP_RESUME, args);
  }

  Result<uint32_t> count_gem_handles(int render) override {
    GemListHandles args{};
    if (TEMP_FAILURE_RETRY(ioctl(render, kGemListHandles, &args)) == 0) return args.num_entries;
    if (errno == EINVAL) errno = ENOTTY;  // of DRM, for an unknown ioctl
    return Error::system("cannot list the GEM handles of a render node");
  }
};

}  // namespace

std::unique_ptr<Ioctl> make_ioctl() { return std::make_unique<RealIoctl>(); }

}  // namespace amdgpu_criu::stock
