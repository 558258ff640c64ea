// SPDX-License-Identifier: GPL-2.0
#include "restore/restore.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "image/mappings.h"
#include "restore/contents.h"

namespace restore {
namespace {

using base::Error;

// The GPUs that any process of the dump used, each once.
std::vector<topology::Gpu> gpus_used(const image::Set& images) {
  std::map<uint32_t, topology::Gpu> used;
  for (const auto& [index, process] : images.processes())
    for (const image::Device& device : process.devices)
      used.emplace(device.actual_gpu_id, device.gpu);
  std::vector<topology::Gpu> result;
  for (auto& [id, gpu] : used) result.push_back(std::move(gpu));
  return result;
}

const image::Device* find_device(const image::Process& process, uint32_t gpu_id) {
  auto found = std::ranges::find(process.devices, gpu_id, &image::Device::gpu_id);
  return found == process.devices.end() ? nullptr : &*found;
}

}  // namespace

Result<Restore> Restore::create(Environment environment, image::Set images) {
  topology::Assignment targets;
  std::map<uint32_t, unsigned> minors;
  if (!images.empty()) {
    if (!environment.host.has_kfd())
      return Error(ENODEV, "the images hold GPU state, but this machine has no /dev/kfd");
    const auto here = TRY(environment.host.gpus());
    targets = TRY(topology::plan(gpus_used(images), here, environment.options.map,
                                 environment.options.ignore));
    for (const topology::Gpu& gpu : here) minors[gpu.gpu_id] = gpu.render_minor;
  }
  for (const auto& [source, target] : targets)
    base::log_info("GPU {:#x} of the images is restored on GPU {:#x}", source, target);
  size_t processes = 0;
  for (const auto& [index, process] : images.processes())
    processes = std::max<size_t>(processes, index + 1);
  auto shared = TRY(SharedState::create(processes));
  return Restore(std::move(environment), std::move(images), std::move(targets), std::move(minors),
                 std::move(shared));
}

Result<std::optional<Fd>> Restore::open_file(uint32_t id) {
  const auto file = images_.files().find(id);
  if (file == images_.files().end()) return std::optional<Fd>();
  Task* task = TRY(task_for(images_.processes().at(file->second.process)));
  Fd fd = TRY(take_file(*task, file->second));
  if (fcntl(fd.get(), F_SETFL, file->second.status_flags) != 0)
    return Error::system("cannot set the flags of a GPU node");
  return std::optional(std::move(fd));
}

Result<Restore::Task*> Restore::task_for(const image::Process& process) {
  // A task forked from one that was restored already has a copy of its parent's.
  if (task_ && task_->pid != getpid()) task_.reset();
  if (task_ && task_->process == process.index) return &*task_;
  if (task_)
    return Error::of(EOPNOTSUPP,
                     "process {} shares an open GPU file with process {} ({}), whose it is; CRIU "
                     "opens it in the wrong one of the two",
                     getpid(), process.pid, process.comm);
  if (static_cast<uint32_t>(getpid()) != process.pid)
    return Error::of(EOPNOTSUPP,
                     "a GPU file of process {} ({}) is opened in process {}: files shared this way "
                     "cannot be carried yet",
                     process.pid, process.comm, getpid());
  task_ = TRY(restore_process(process));
  return &*task_;
}

Result<Fd> Restore::join_session(const Fd& kfd) {
  auto make = [&]() -> Result<int> {
    const Fd session =
        TRY(env_.api.create_session(kernel::kfd_node(kfd), kernel::SessionKind::kRestore));
    return env_.store.add(session);
  };
  return env_.store.get(TRY(shared_.session_id(make)));
}

Result<std::map<uint32_t, Fd>> Restore::open_render_nodes(const image::Process& process) {
  std::map<uint32_t, Fd> result;
  for (const image::Device& device : process.devices)
    if (device.has_vm)
      result[device.gpu_id] =
          TRY(env_.host.open_render(minors_.at(targets_.at(device.actual_gpu_id))));
  return result;
}

Result<Restore::Task> Restore::restore_process(const image::Process& process) {
  Task task;
  task.pid = getpid();
  task.process = process.index;
  task.image = process;
  const Fd kfd = TRY(env_.host.open_kfd());
  const Fd session = TRY(join_session(kfd));
  const auto render = TRY(open_render_nodes(process));
  std::vector<kernel::RestoreDevice> devices;
  for (const image::Device& device : process.devices) {
    const auto file = render.find(device.gpu_id);
    devices.push_back({device.gpu_id, targets_.at(device.actual_gpu_id),
                       file == render.end() ? -1 : file->second.get()});
  }
  Status restored =
      env_.api.restore(kernel::kfd_node(kfd), session.get(), devices, task.image.bos, process.blob);
  if (!restored.ok())
    return std::move(restored).error().within("image " + image::process_file_name(process.index));
  TRY(fill(process, kfd, session));
  task.kfd_id = TRY(env_.store.add(kfd));
  for (const auto& [gpu_id, file] : render) task.render_ids[gpu_id] = TRY(env_.store.add(file));
  shared_.set_restored(process.index);
  return task;
}

Status Restore::fill(const image::Process& process, const Fd& kfd, const Fd& session) {
  for (const auto& file : images_.contents()) {
    if (file.contents.process != process.index) continue;
    if (env_.options.test_skip_contents)
      base::log_warning("TEST SWITCH: {} is NOT restored", file.name);
    else
      TRY(fill_from(file, process, kfd, session));
  }
  return {};
}

Status Restore::fill_from(const image::Set::ContentsFile& file, const image::Process& process,
                          const Fd& kfd, const Fd& session) {
  const image::Device* device = find_device(process, file.contents.gpu_id);
  if (!device)
    return Error::of(EBADMSG, "image {} is of a GPU that its process does not use", file.name);
  const auto start = std::chrono::steady_clock::now();
  const unsigned minor = minors_.at(targets_.at(device->actual_gpu_id));
  auto engine = TRY(env_.make_engine(TRY(env_.host.open_render(minor)),
                                     staging_for(file.contents, env_.options.staging)));
  auto dmabuf = [&](uint64_t id) {
    return env_.api.dmabuf(kernel::kfd_node(kfd), session.get(), id);
  };
  const image::Opened opened = TRY(file.open(TRY(env_.image_directory())));
  Status status = fill_contents(*engine, opened, file.contents.objects, dmabuf);
  if (!status.ok()) return std::move(status).error().within("restoring " + file.name);
  const auto spent = std::chrono::steady_clock::now() - start;
  base::log_info("filled {} BOs, {} bytes in {} ms", file.contents.objects.size(), file.bytes(),
                 std::chrono::duration_cast<std::chrono::milliseconds>(spent).count());
  return {};
}

Result<Fd> Restore::take_file(Task& task, const image::File& file) {
  if (!file.kfd) return env_.store.get(task.render_ids.at(file.gpu_id));
  // Further opens of /dev/kfd in one process all mean the same.
  if (std::exchange(task.kfd_given, true)) return env_.host.open_kfd();
  return env_.store.get(task.kfd_id);
}

Result<std::optional<NewMapping>> Restore::map(uint64_t start) {
  if (!task_ || task_->pid != getpid()) return std::optional<NewMapping>();
  const auto& vmas = task_->image.vmas;
  auto vma = std::ranges::find(vmas, start, &image::Vma::start);
  if (vma == vmas.end()) return std::optional<NewMapping>();
  NewMapping mapping;
  mapping.offset = TRY(image::restored_offset(task_->image, *vma, targets_));
  mapping.file = TRY(env_.store.get(vma->kfd ? task_->kfd_id : task_->render_ids.at(vma->gpu_id)));
  return std::optional(std::move(mapping));
}

Result<bool> Restore::resume(pid_t pid) {
  if (empty()) return false;
  const pid_t number = TRY(host::namespace_pid(pid));
  bool restored = false;
  for (const auto& [index, process] : images_.processes())
    if (process.pid == static_cast<uint32_t>(number) && shared_.is_restored(index)) restored = true;
  if (!restored) return false;
  const Fd kfd = TRY(env_.host.open_kfd());
  const Fd session = TRY(env_.store.get(shared_.session_id()));
  TRY(env_.api.resume(kernel::kfd_node(kfd), session.get(), pid));
  return true;
}

}  // namespace restore
