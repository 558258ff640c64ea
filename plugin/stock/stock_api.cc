// SPDX-License-Identifier: GPL-2.0
#include "stock/stock_api.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "stock/private_data.h"
#include "stock/record.h"

namespace amdgpu_criu::stock {

using kernel::Node;

namespace {

constexpr char kOnlyKfd[] =
    "this kernel's amdgpu module carries the state of /dev/kfd only, not that of render nodes";

constexpr char kNoDmabufs[] =
    "descriptors of dma-bufs cannot be carried without the amdgpu-criu kernel series";

uint32_t domain_of(uint32_t alloc_flags) {
  if (alloc_flags & kVram) return AMDGPU_CRIU_DOMAIN_VRAM;
  if (alloc_flags & kGtt) return AMDGPU_CRIU_DOMAIN_GTT;
  return alloc_flags & kUserptr ? AMDGPU_CRIU_DOMAIN_CPU : AMDGPU_CRIU_DOMAIN_NONE;
}

uint32_t flags_of(uint32_t alloc_flags) {
  if (alloc_flags & (kVram | kGtt)) return AMDGPU_CRIU_BO_CONTENTS;
  if (alloc_flags & kUserptr) return AMDGPU_CRIU_BO_USERPTR;
  if (alloc_flags & kDoorbell) return AMDGPU_CRIU_BO_DOORBELL;
  return alloc_flags & kMmio ? AMDGPU_CRIU_BO_MMIO : 0;
}

// True if the open file has sent work to the GPU through a context. The kernel reports only the
// time.
Result<bool> has_sent_work(int file) {
  std::ifstream in(formatted("/proc/self/fdinfo/{}", file));
  if (!in) return Error::system("cannot read what a render node was used for");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("drm-engine-") || line.starts_with("drm-engine-capacity")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && strtoull(line.c_str() + colon + 1, nullptr, 10) != 0)
      return true;
  }
  return false;
}

}  // namespace

StockApi::~StockApi() {
  for (const Paused& process : paused_) unpause_or_log(process);
}

void StockApi::unpause_or_log(const Paused& process) {
  if (const Status status = parts_.ioctl->unpause(process.files.front().get()); !status.ok())
    log_error("process {} stays paused on the GPU: {}", process.pid, status.error().message());
}

Result<kernel::Query> StockApi::query(Node) {
  kernel::Query query;
  query.features = AMDGPU_CRIU_FEATURE_KFD;
  return query;
}

Result<Fd> StockApi::create_session(Node, kernel::SessionKind) {
  Fd session(memfd_create("amdgpu-criu-stock", MFD_CLOEXEC));
  if (!session.valid()) return Error::system("cannot make a session");
  return session;
}

// Pause

Result<StockApi::Paused*> StockApi::find(int kfd) {
  for (Paused& process : paused_)
    for (const Fd& file : process.files)
      if (TRY(host::same_file(file.get(), kfd))) return &process;
  return static_cast<Paused*>(nullptr);
}

StockApi::Paused* StockApi::find_process(pid_t pid) {
  const auto found = std::ranges::find(paused_, pid, &Paused::pid);
  return found == paused_.end() ? nullptr : &*found;
}

// PROCESS_INFO would report the owner of the file, but only once, so the owner is found before.
Result<kernel::ProcessInfo> StockApi::process_info(Node node, int, pid_t pid,
                                                   const kernel::Interrupted& interrupted) {
  if (node.kind == Node::Kind::kRender) return Error(EOPNOTSUPP, kOnlyKfd);
  if (const Paused* known = TRY(find(node.fd))) return known->info;
  Fd file(fcntl(node.fd, F_DUPFD_CLOEXEC, 0));
  if (!file.valid()) return Error::system("cannot duplicate a descriptor of /dev/kfd");
  if (Paused* known = find_process(pid)) {
    known->files.push_back(std::move(file));
    return known->info;
  }
  std::error_code error;
  if (pid <= 0 || !std::filesystem::exists(formatted("{}/{}", parts_.kfd_processes, pid), error))
    return Error::of(EOPNOTSUPP,
                     "process {} has a /dev/kfd open that another process opened; without the "
                     "amdgpu-criu kernel series nothing shows which one, and it cannot be carried",
                     pid);
  Paused process{pid, {}, {}, {}, {}, {}, {}};
  process.files.push_back(std::move(file));
  // After an exception, too, the destructor continues the process.
  TRY(pause(paused_.emplace_back(std::move(process)), interrupted));
  return paused_.back().info;
}

// The last one of paused_, which stays there if it is paused.
Status StockApi::pause(Paused& process, const kernel::Interrupted& interrupted) {
  const auto sizes = parts_.ioctl->process_info(process.files.front().get(), interrupted);
  if (!sizes.ok()) {
    paused_.pop_back();
    return sizes.error();
  }
  Status status = check_pid(process, *sizes);
  if (status.ok()) status = find_vms(process, sizes->devices);
  if (status.ok()) status = save(process, *sizes);
  if (status.ok()) return {};
  unpause_or_log(process);
  paused_.pop_back();
  return status;
}

Status StockApi::check_pid(const Paused& process, const Sizes& sizes) const {
  if (TRY(host::namespace_pid(process.pid)) == sizes.pid) return {};
  return Error::of(EOPNOTSUPP,
                   "process {} has a /dev/kfd open that belongs to process {}; it cannot be "
                   "carried without the amdgpu-criu kernel series",
                   process.pid, sizes.pid);
}

// CHECKPOINT of a process that has no VM on one of the GPUs ends in an oops, and a restore needs a
// file for each GPU.
Status StockApi::find_vms(Paused& process, uint32_t num_devices) const {
  if (num_devices != gpus_.size())
    return Error::of(EOPNOTSUPP,
                     "process {} knows {} GPUs, this machine has {}; the stock kernel interface "
                     "carries only processes that use all",
                     process.pid, num_devices, gpus_.size());
  const auto files = TRY(parts_.host.files_of(process.pid));
  for (const topology::Gpu& gpu : gpus_) {
    Fd& vm = process.vms[gpu.gpu_id];
    for (const host::ProcessFile& file : files) {
      if (file.node.kind != host::NodeKind::kRender || file.node.minor != gpu.render_minor)
        continue;
      host::TakenFile taken = TRY(parts_.host.take(process.pid, file));
      if (vm.valid() && TRY(host::same_file(vm.get(), taken.get()))) {
        taken.set_idle();
        continue;
      }
      if (vm.valid())
        return Error::of(EOPNOTSUPP,
                         "process {} has opened renderD{} more than once; without the amdgpu-criu "
                         "kernel series nothing shows which of the files /dev/kfd uses",
                         process.pid, gpu.render_minor);
      TRY(check_render(process, taken.get(), file.node.minor));
      vm = std::move(taken).idle();
    }
    if (!vm.valid())
      return Error::of(EOPNOTSUPP,
                       "process {} uses /dev/kfd, but has no open file of {}; the stock kernel "
                       "interface crashes on a process that does not use all GPUs",
                       process.pid, gpu.describe());
  }
  return {};
}

Status StockApi::check_render(const Paused& process, int file, unsigned minor) const {
  const auto handles = parts_.ioctl->count_gem_handles(file);
  if (!handles.ok() && handles.error().code() != ENOTTY) return handles.error();
  if (!handles.ok())
    log_warning(
        "this kernel cannot list the buffer objects that process {} may have of its own on "
        "renderD{}: they are not carried",
        process.pid, minor);
  else if (*handles != 0)
    return Error::of(EOPNOTSUPP, "process {} has {} buffer objects of its own on renderD{}; {}",
                     process.pid, *handles, minor, kOnlyKfd);
  if (TRY(has_sent_work(file)))
    return Error::of(EOPNOTSUPP, "process {} has sent work to the GPU through renderD{}; {}",
                     process.pid, minor, kOnlyKfd);
  return {};
}

Status StockApi::save(Paused& process, const Sizes& sizes) {
  State state = TRY(parts_.ioctl->checkpoint(process.files.front().get(), sizes));
  Described described = TRY(describe(
      state.private_data, {sizes.devices, static_cast<uint32_t>(state.bos.size()), state.objects}));
  Record record{{}, state.objects, std::move(described.data)};
  for (Bo& bo : state.bos) {
    record.alloc_flags.push_back(bo.alloc_flags);
    process.bos.push_back(TRY(add_object(process, std::move(bo))));
  }
  process.devices = std::move(state.devices);
  process.blob = encode(record);
  process.info = {.pid = process.pid,
                  .num_devices = sizes.devices,
                  .num_bos = sizes.bos,
                  .num_queues = described.queues,
                  .num_events = described.events,
                  .num_svm_ranges = described.svm_ranges,
                  .blob_size = process.blob.size()};
  log_warning(
      "process {}: this kernel has no amdgpu-criu series, and does not save trap handlers, the "
      "state of the ROCm debugger's interface, and who shares a BO with processes outside of the "
      "dump; amdgpu-criu check says more",
      process.pid);
  return {};
}

// An object has one dma-buf, for all callers.
Result<kernel::Bo> StockApi::add_object(const Paused& process, Bo bo) {
  kernel::Bo result{};
  result.object_id = next_object_++;
  result.size = bo.size;
  result.va = bo.va;
  result.gpu_id = bo.gpu_id;
  result.handle = ~0u;
  result.domain = domain_of(bo.alloc_flags);
  result.flags = flags_of(bo.alloc_flags);
  result.mmap_offset = bo.alloc_flags & kUserptr ? ~0ull : bo.mmap_offset;
  if (!(result.flags & AMDGPU_CRIU_BO_CONTENTS)) return result;
  struct stat status;
  if (!bo.dmabuf.valid() || fstat(bo.dmabuf.get(), &status) != 0)
    return Error::of(EPROTO, "the stock kernel gave no dma-buf of the BO at {:#x}", bo.va);
  if (!inodes_.insert(status.st_ino).second)
    return Error::of(EOPNOTSUPP,
                     "process {} has a BO at {:#x} ({:#x} bytes) that is shared, with another "
                     "process or with itself; the stock kernel interface would make copies of it",
                     process.pid, bo.va, bo.size);
  objects_[result.object_id] = std::move(bo.dmabuf);
  return result;
}

// Save

Result<kernel::Checkpoint> StockApi::checkpoint(Node node, int, const kernel::ProcessInfo&) {
  const Paused* process = TRY(find(node.fd));
  if (!process) return Error(EBADFD, "a /dev/kfd that was not paused is to be saved");
  kernel::Checkpoint result;
  for (const Device& device : process->devices) {
    const auto vm = process->vms.find(device.actual_gpu_id);
    if (vm == process->vms.end())
      return Error::of(ENODEV, "GPU {:#x} is not in the topology in sysfs", device.actual_gpu_id);
    result.devices.push_back({device.gpu_id, device.actual_gpu_id, TRY(vm->second.duplicate())});
  }
  result.bos = process->bos;
  result.blob = process->blob;
  return result;
}

Status StockApi::unpause(Node node, int) {
  Paused* process = TRY(find(node.fd));
  if (!process) return Error(ESRCH, "a /dev/kfd that was not paused is to be unpaused");
  // After an error the destructor tries again.
  TRY(parts_.ioctl->unpause(process->files.front().get()));
  std::erase_if(paused_, [&](const Paused& one) { return &one == process; });
  return {};
}

Result<Fd> StockApi::dmabuf(Node, int, uint64_t object_id) {
  const std::lock_guard guard(taking_);
  const auto object = objects_.find(object_id);
  if (object == objects_.end())
    return Error::of(ENOENT, "object {} does not belong to this process, or was requested before",
                     object_id);
  Fd dmabuf = std::move(object->second);
  objects_.erase(object);
  return dmabuf;
}

// Restore

Result<State> StockApi::restore_state(int kfd, std::span<const kernel::RestoreDevice> devices,
                                      std::span<kernel::Bo> bos, std::span<const std::byte> blob) {
  Record record = TRY(decode(blob));
  if (record.alloc_flags.size() != bos.size())
    return Error::of(EBADMSG, "the stock kernel's state has {} BOs, but the image has {}",
                     record.alloc_flags.size(), bos.size());
  if (devices.size() != gpus_.size())
    return Error::of(ENODEV,
                     "{} GPUs were in use, this machine has {}; the stock kernel interface "
                     "restores only where there are as many",
                     devices.size(), gpus_.size());
  State state;
  state.objects = record.num_objects;
  const Counts counts{static_cast<uint32_t>(devices.size()), static_cast<uint32_t>(bos.size()),
                      record.num_objects};
  state.private_data = TRY(describe(record.private_data, counts)).data;
  for (const kernel::RestoreDevice& device : devices)
    if (device.gpu_id != device.actual_gpu_id)
      log_warning(
          "GPU {:#x} replaces GPU {:#x}: on a kernel without the amdgpu-criu series the process "
          "cannot create new queues there",
          device.actual_gpu_id, device.gpu_id);
  for (size_t i = 0; i < bos.size(); i++)
    state.bos.push_back({bos[i].va, bos[i].size, bos[i].mmap_offset, bos[i].gpu_id,
                         record.alloc_flags[i], 0, Fd()});
  TRY(parts_.ioctl->restore(kfd, devices, state));
  for (size_t i = 0; i < bos.size(); i++) bos[i].new_mmap_offset = state.bos[i].new_mmap_offset;
  return state;
}

Status StockApi::restore(Node node, int, std::span<const kernel::RestoreDevice> devices,
                         std::span<kernel::Bo> bos, std::span<const std::byte> blob) {
  if (node.kind == Node::Kind::kRender) return Error(EOPNOTSUPP, kOnlyKfd);
  State state = TRY(restore_state(node.fd, devices, bos, blob));
  for (size_t i = 0; i < bos.size(); i++)
    if (bos[i].flags & AMDGPU_CRIU_BO_CONTENTS)
      objects_[bos[i].object_id] = std::move(state.bos[i].dmabuf);
  return {};
}

Status StockApi::resume(Node node, int, pid_t pid) {
  if (node.kind == Node::Kind::kRender) return Error(EOPNOTSUPP, kOnlyKfd);
  return parts_.ioctl->resume(node.fd, pid);
}

Result<kernel::Exported> StockApi::save_exported(Node, int, int) {
  return Error(EOPNOTSUPP, kNoDmabufs);
}

Result<Fd> StockApi::restore_exported(Node, int, const kernel::Exported&) {
  return Error(EOPNOTSUPP, kNoDmabufs);
}

Result<kernel::Outside> StockApi::outside(Node, int) {
  return Error(ENOTTY, "the stock kernel interface does not report who shares a BO");
}

}  // namespace amdgpu_criu::stock
