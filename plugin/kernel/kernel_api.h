// SPDX-License-Identifier: GPL-2.0
// The kernel interface of uapi/drm/amdgpu_criu.h, one method an operation.
#pragma once

#include <drm/amdgpu_criu.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::kernel {

using Bo = amdgpu_criu_bo;

// An open file of a GPU node: the two kinds have different ioctl numbers.
struct Node {
  enum class Kind { kKfd, kRender };
  int fd;
  Kind kind;
};
inline Node kfd_node(const Fd& file) { return {file.get(), Node::Kind::kKfd}; }
inline Node render_node(const Fd& file) { return {file.get(), Node::Kind::kRender}; }

enum class SessionKind : uint32_t {
  kCheckpoint = AMDGPU_CRIU_SESSION_CHECKPOINT,
  kRestore = AMDGPU_CRIU_SESSION_RESTORE,
};

struct Query {
  uint32_t abi_min = 0;
  uint32_t abi_max = 0;
  uint64_t features = 0;
  uint32_t blob_format = 0;
  std::vector<amdgpu_criu_record_info> records;
};

struct ProcessInfo {
  pid_t pid = 0;
  uint32_t num_devices = 0;
  uint32_t num_bos = 0;
  uint32_t num_queues = 0;
  uint32_t num_events = 0;
  uint32_t num_svm_ranges = 0;
  uint64_t blob_size = 0;
};

struct CheckpointDevice {
  uint32_t gpu_id = 0;
  uint32_t actual_gpu_id = 0;
  Fd drm_file;  // not valid: no VM on this GPU
};

struct Checkpoint {
  std::vector<CheckpointDevice> devices;
  std::vector<Bo> bos;
  std::vector<std::byte> blob;
};

// One object of which the process has a dma-buf descriptor.
struct Exported {
  Bo bo{};
  std::vector<std::byte> blob;
};

// What the paused clients of a session share with others: counts, and one example.
struct Outside {
  uint32_t num_bos = 0;
  uint32_t num_syncobjs = 0;
  pid_t pid = 0;         // a process that is not paused; 0: not in our pid namespace
  pid_t paused_pid = 0;  // a paused process that shares it
  uint32_t handle = 0;   // of the latter
  uint64_t size = 0;     // 0: a syncobj
};

// Bytes of VRAM of a paused client.
struct Evicted {
  uint64_t bytes = 0;  // in host memory now
  uint64_t kept = 0;   // cannot be moved
};

struct RestoreDevice {
  uint32_t gpu_id = 0;
  uint32_t actual_gpu_id = 0;
  int drm_fd = -1;
};

using Interrupted = std::function<Status()>;

class Api {
 public:
  virtual ~Api() = default;

  // True if the kernel has the amdgpu-criu series. Without it, offsets for mmap() of /dev/kfd
  // contain the machine's number of a GPU instead of the process's, and no mapping may begin inside
  // of a BO.
  virtual bool has_series() const { return true; }
  // Of such a kernel: unpauses all processes, which would stay paused after the end of this one.
  // Called by signal handlers while no other call is in progress.
  virtual void unpause_in_handler() {}
  virtual Result<Query> query(Node node) = 0;
  virtual Result<Fd> create_session(Node node, SessionKind kind) = 0;
  // process: one that has the file open. Waits for submitted work; a signal that is handled without
  // SA_RESTART calls `interrupted`, whose error ends the wait.
  virtual Result<ProcessInfo> process_info(Node node, int session, pid_t process,
                                           const Interrupted& interrupted = {}) = 0;
  // PROCESS_INFO of a process that continues to run; needs AMDGPU_CRIU_FEATURE_LIVE. In a session
  // in which this was called, checkpoint() returns only tables.
  virtual Result<ProcessInfo> live_info(Node, int, pid_t) {
    return Error(EOPNOTSUPP, "this kernel cannot list the memory of a process that runs");
  }
  virtual Result<Checkpoint> checkpoint(Node node, int session, const ProcessInfo& sizes) = 0;
  virtual Status unpause(Node node, int session) = 0;
  // Fills new_mmap_offset of every BO.
  virtual Status restore(Node node, int session, std::span<const RestoreDevice> devices,
                         std::span<Bo> bos, std::span<const std::byte> blob) = 0;
  virtual Status resume(Node node, int session, pid_t pid) = 0;
  // From any thread: the threads of all GPUs call it at the same time.
  virtual Result<Fd> dmabuf(Node node, int session, uint64_t object_id) = 0;
  // EXPORTED in a session of either kind; render nodes only.
  virtual Result<Exported> save_exported(Node node, int session, int dmabuf) = 0;
  virtual Result<Fd> restore_exported(Node node, int session, const Exported& exported) = 0;
  // Bytes of VRAM that the kernel still lets processes allocate through /dev/kfd.
  virtual Result<uint64_t> available_memory(const Fd&, uint32_t) {
    return Error(ENOTTY, "this kernel cannot report how much memory a GPU has left");
  }
  // Render nodes only; ENOTTY: this kernel cannot report it.
  virtual Result<Outside> outside(Node node, int session) = 0;
  // Of a paused client, until it is unpaused; needs AMDGPU_CRIU_FEATURE_EVICT.
  virtual Result<Evicted> evict(Node, int) {
    return Error(EOPNOTSUPP, "this kernel cannot move the VRAM of a paused process");
  }
};

// For tests: called before each operation. Its error is returned instead of the kernel's.
using CallFilter = std::function<Status(const char* operation)>;
std::unique_ptr<Api> make_ioctl_api();
void set_call_filter(CallFilter filter);

// Offsets for mmap() of /dev/kfd, as in the driver's kfd_priv.h: a type in the top two bits, and
// below it the number of the GPU: the process's on a kernel with the amdgpu-criu series, the
// machine's on others.
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
