// SPDX-License-Identifier: GPL-2.0
#include "workload/kfd.h"

#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr uint32_t kAccess = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
                             KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;

uint32_t flags_of(const AllocRequest& request) {
  uint32_t flags = kAccess;
  switch (request.domain) {
    case Domain::kVram:
      flags |= KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
      if (request.cpu_visible) flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
      break;
    case Domain::kGtt:
      flags |= KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
      break;
    case Domain::kUserptr:
      flags |= KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
      break;
    case Domain::kDoorbell:
      flags |= KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL;
      break;
    case Domain::kMmio:
      flags |= KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;
      break;
  }
  if (request.coherent)
    flags |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED;
  return flags;
}

uint32_t type_of(QueueType type) {
  switch (type) {
    case QueueType::kPm4:
      return KFD_IOC_QUEUE_TYPE_COMPUTE;
    case QueueType::kAql:
      return KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    case QueueType::kSdma:
      return KFD_IOC_QUEUE_TYPE_SDMA;
  }
  return ~0u;
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Map and unmap continue where an interrupted call stopped, by n_success.
template <typename Args>
Status map_call(int fd, unsigned long request, uint64_t handle, std::span<const uint32_t> gpu_ids,
                const char* what) {
  Args args = {};
  args.handle = handle;
  args.device_ids_array_ptr = address_of(gpu_ids.data());
  args.n_devices = static_cast<uint32_t>(gpu_ids.size());
  while (ioctl(fd, request, &args) != 0)
    if (errno != EINTR && errno != EAGAIN)
      return Error::system("{} BO {:#x} on GPU {} of {}", what, handle, args.n_success + 1,
                           args.n_devices);
  return {};
}

}  // namespace

const char* name_of(Domain domain) {
  constexpr const char* kNames[] = {"vram", "gtt", "userptr", "doorbell", "mmio"};
  return kNames[static_cast<int>(domain)];
}

Result<Kfd> Kfd::open(Ways ways) {
  return Kfd(TRY(amdgpu_criu::Fd::open("/dev/kfd", O_RDWR)), ways);
}

std::string Kfd::version() const {
  kfd_ioctl_get_version_args args = {};
  if (ioctl(fd_.get(), AMDKFD_IOC_GET_VERSION, &args) != 0) return "unknown";
  return amdgpu_criu::formatted("{}.{}", args.major_version, args.minor_version);
}

Status Kfd::acquire_vm(uint32_t gpu_id, int drm_fd) const {
  kfd_ioctl_acquire_vm_args args = {static_cast<uint32_t>(drm_fd), gpu_id};
  if (ioctl(fd_.get(), AMDKFD_IOC_ACQUIRE_VM, &args) != 0)
    return Error::system("cannot acquire the VM of gpu_id {:#x}", gpu_id);
  return {};
}

Result<Allocation> Kfd::allocate(const AllocRequest& request) const {
  kfd_ioctl_alloc_memory_of_gpu_args args = {};
  args.va_addr = request.va;
  args.size = request.size;
  args.gpu_id = request.gpu_id;
  args.flags = flags_of(request);
  if (request.domain == Domain::kUserptr) args.mmap_offset = request.va;
  while (ioctl(fd_.get(), AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) != 0)
    if (errno != EINTR)
      return Error::system("cannot allocate {} bytes of {} on gpu_id {:#x}", request.size,
                           name_of(request.domain), request.gpu_id);
  return Allocation{args.handle, args.mmap_offset};
}

Status Kfd::free(uint64_t handle) const {
  kfd_ioctl_free_memory_of_gpu_args args = {handle};
  while (ioctl(fd_.get(), AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args) != 0)
    if (errno != EINTR) return Error::system("cannot free BO {:#x}", handle);
  return {};
}

Status Kfd::map(uint64_t handle, std::span<const uint32_t> gpu_ids) const {
  return map_call<kfd_ioctl_map_memory_to_gpu_args>(fd_.get(), AMDKFD_IOC_MAP_MEMORY_TO_GPU, handle,
                                                    gpu_ids, "cannot map");
}

Status Kfd::unmap(uint64_t handle, std::span<const uint32_t> gpu_ids) const {
  return map_call<kfd_ioctl_unmap_memory_from_gpu_args>(fd_.get(), AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU,
                                                        handle, gpu_ids, "cannot unmap");
}

Result<Fd> Kfd::export_dmabuf(uint64_t handle) const {
  kfd_ioctl_export_dmabuf_args args = {};
  args.handle = handle;
  args.flags = O_CLOEXEC;
  if (ioctl(fd_.get(), AMDKFD_IOC_EXPORT_DMABUF, &args) != 0)
    return Error::system("cannot export BO {:#x}", handle);
  return Fd(static_cast<int>(args.dmabuf_fd));
}

Result<uint64_t> Kfd::import_dmabuf(const Fd& dmabuf, uint32_t gpu_id, uint64_t va) const {
  kfd_ioctl_import_dmabuf_args args = {};
  args.va_addr = va;
  args.gpu_id = gpu_id;
  args.dmabuf_fd = static_cast<uint32_t>(dmabuf.get());
  if (ioctl(fd_.get(), AMDKFD_IOC_IMPORT_DMABUF, &args) != 0)
    return Error::system("cannot import a dma-buf on gpu_id {:#x}", gpu_id);
  return args.handle;
}

Result<QueueHandle> Kfd::create_queue(const QueueRequest& request) const {
  kfd_ioctl_create_queue_args args = {};
  args.ring_base_address = request.ring;
  args.ring_size = request.ring_size;
  args.read_pointer_address = request.read_pointer;
  args.write_pointer_address = request.write_pointer;
  args.gpu_id = request.gpu_id;
  args.queue_type = type_of(request.type);
  args.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE;
  args.queue_priority = 7;
  if (request.type != QueueType::kSdma) {
    args.eop_buffer_address = request.eop;
    args.eop_buffer_size = request.eop_size;
    args.ctx_save_restore_address = request.context_save;
    args.ctx_save_restore_size = static_cast<uint32_t>(request.node->cwsr_size);
    args.ctl_stack_size = static_cast<uint32_t>(request.node->ctl_stack_size);
  }
  if (ioctl(fd_.get(), AMDKFD_IOC_CREATE_QUEUE, &args) != 0)
    return Error::system("cannot create a queue of type {} on gpu_id {:#x}", args.queue_type,
                         request.gpu_id);
  return QueueHandle{args.queue_id, args.doorbell_offset};
}

Status Kfd::update_queue(const QueueUpdate& update) const {
  kfd_ioctl_update_queue_args args = {};
  args.queue_id = update.queue_id;
  args.ring_base_address = update.ring;
  args.ring_size = update.ring_size;
  args.queue_percentage = update.percent;
  args.queue_priority = update.priority;
  while (ioctl(fd_.get(), AMDKFD_IOC_UPDATE_QUEUE, &args) != 0)
    if (errno != EINTR) return Error::system("cannot update queue {}", update.queue_id);
  return {};
}

Status Kfd::destroy_queue(uint32_t queue_id) const {
  kfd_ioctl_destroy_queue_args args = {queue_id, 0};
  while (ioctl(fd_.get(), AMDKFD_IOC_DESTROY_QUEUE, &args) != 0)
    if (errno != EINTR) return Error::system("cannot destroy queue {}", queue_id);
  return {};
}

Result<EventHandle> Kfd::create_event(uint64_t page_handle) const {
  kfd_ioctl_create_event_args args = {};
  args.event_page_offset = page_handle;
  args.event_type = KFD_IOC_EVENT_SIGNAL;
  args.auto_reset = 1;
  if (ioctl(fd_.get(), AMDKFD_IOC_CREATE_EVENT, &args) != 0)
    return Error::system("cannot create a signal event");
  return EventHandle{args.event_id, args.event_page_offset};
}

Status Kfd::destroy_event(uint32_t event_id) const {
  kfd_ioctl_destroy_event_args args = {event_id, 0};
  if (ioctl(fd_.get(), AMDKFD_IOC_DESTROY_EVENT, &args) != 0)
    return Error::system("cannot destroy event {}", event_id);
  return {};
}

Result<WaitResult> Kfd::wait_events(std::span<const uint32_t> event_ids,
                                    unsigned timeout_ms) const {
  std::vector<kfd_event_data> data(event_ids.size());
  std::ranges::transform(event_ids, data.begin(), [](uint32_t id) {
    kfd_event_data entry = {};
    entry.event_id = id;
    return entry;
  });
  kfd_ioctl_wait_events_args args = {};
  args.events_ptr = address_of(data.data());
  args.num_events = static_cast<uint32_t>(data.size());
  args.wait_for_all = 1;
  args.timeout = timeout_ms;
  // An interrupted call leaves the time that remains in args.timeout.
  while (ioctl(fd_.get(), AMDKFD_IOC_WAIT_EVENTS, &args) != 0)
    if (errno != EINTR) return Error::system("cannot wait for {} events", event_ids.size());
  switch (args.wait_result) {
    case KFD_IOC_WAIT_RESULT_COMPLETE:
      return WaitResult::kComplete;
    case KFD_IOC_WAIT_RESULT_TIMEOUT:
      return WaitResult::kTimeout;
    default:
      return Error::of(EIO, "waiting for events failed with result {}", args.wait_result);
  }
}

}  // namespace e2e
