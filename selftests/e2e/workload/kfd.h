// SPDX-License-Identifier: GPL-2.0
// /dev/kfd by raw ioctls. Only kfd.cc includes linux/kfd_ioctl.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "workload/topology.h"

namespace e2e {

enum class Domain { kVram, kGtt, kUserptr, kDoorbell, kMmio };
const char* name_of(Domain domain);

struct AllocRequest {
  uint32_t gpu_id;
  Domain domain;
  uint64_t va;
  uint64_t size;
  bool cpu_visible = true;  // of VRAM
  bool coherent = false;    // not cached by the GPU, for cells that queues and CPU share
};

struct Allocation {
  uint64_t handle;
  uint64_t mmap_offset;
};

enum class QueueType { kPm4, kAql, kSdma };

struct QueueRequest {
  uint32_t gpu_id;
  QueueType type;
  uint64_t ring;
  uint32_t ring_size;
  uint64_t read_pointer;
  uint64_t write_pointer;
  uint64_t eop = 0;  // compute queues only, as the three below
  uint32_t eop_size = 0;
  uint64_t context_save = 0;
  const GpuNode* node = nullptr;
};

struct QueueHandle {
  uint32_t queue_id;
  uint64_t doorbell_offset;  // of the mapping of the process's doorbells, plus the offset therein
};

struct QueueUpdate {
  uint32_t queue_id;
  uint64_t ring;  // 0: the queue is disabled
  uint32_t ring_size;
  uint32_t percent;
  uint32_t priority;
};

struct EventHandle {
  uint32_t event_id;
  uint64_t page_offset;  // of the mmap of the page that the kernel allocated
};

// How the process maps the driver's pages and BOs.
struct Ways {
  bool own_pages = false;  // pages of /dev/kfd without BOs
  bool split = false;      // mappings are split as soon as they exist
};

enum class WaitResult { kComplete, kTimeout };

class Kfd {
 public:
  // ENOENT, ENXIO: there is no driver.
  static amdgpu_criu::Result<Kfd> open(Ways ways = {});

  int fd() const { return fd_.get(); }
  const Ways& ways() const { return ways_; }
  std::string version() const;

  amdgpu_criu::Status acquire_vm(uint32_t gpu_id, int drm_fd) const;
  amdgpu_criu::Result<Allocation> allocate(const AllocRequest& request) const;
  amdgpu_criu::Status free(uint64_t handle) const;
  amdgpu_criu::Status map(uint64_t handle, std::span<const uint32_t> gpu_ids) const;
  amdgpu_criu::Status unmap(uint64_t handle, std::span<const uint32_t> gpu_ids) const;
  amdgpu_criu::Result<amdgpu_criu::Fd> export_dmabuf(uint64_t handle) const;
  // Returns the handle of a BO at this address, not mapped yet.
  amdgpu_criu::Result<uint64_t> import_dmabuf(const amdgpu_criu::Fd& dmabuf, uint32_t gpu_id,
                                              uint64_t va) const;
  amdgpu_criu::Result<QueueHandle> create_queue(const QueueRequest& request) const;
  amdgpu_criu::Status update_queue(const QueueUpdate& update) const;
  amdgpu_criu::Status destroy_queue(uint32_t queue_id) const;
  // An auto-reset signal event. page_handle: the BO that becomes the process's signal page; only
  // the first call of a process passes it, later calls pass 0. If the first call passes 0, the
  // kernel allocates the page.
  amdgpu_criu::Result<EventHandle> create_event(uint64_t page_handle) const;
  amdgpu_criu::Status destroy_event(uint32_t event_id) const;
  // Waits for all of them. Signals do not end the wait, and time during a checkpoint does not
  // count.
  amdgpu_criu::Result<WaitResult> wait_events(std::span<const uint32_t> event_ids,
                                              unsigned timeout_ms) const;

  static constexpr uint64_t kSignalPageSize = uint64_t{4096} * 8;
  static constexpr uint64_t kDoorbellSlice = 8192;

 private:
  Kfd(amdgpu_criu::Fd fd, Ways ways) : fd_(std::move(fd)), ways_(ways) {}
  amdgpu_criu::Fd fd_;
  Ways ways_;
};

}  // namespace e2e
