// SPDX-License-Identifier: GPL-2.0
#include "dump/dump.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/statistics.h"
#include "dump/room.h"
#include "image/set.h"

namespace amdgpu_criu::dump {
namespace {

using host::NodeKind;
using image::FileKind;

std::string path_of(int fd) {
  char path[256];
  const ssize_t length = readlink(formatted("/proc/self/fd/{}", fd).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : "a GPU node";
}

Error not_carried(int render) {
  return Error::of(EOPNOTSUPP,
                   "{} is open in a file that KFD does not use, and the amdgpu module of this "
                   "kernel does not carry what was done through it (BOs, contexts, syncobjs)",
                   path_of(render));
}

// CRIU refuses them too, but does not name them.
void warn_of_refused(const std::string& path, uint32_t id) {
  if (path == "anon_inode:syncobj_file" || path == "anon_inode:sync_file")
    log_refused("file {:#x} is {}: fences cannot be carried outside of their file", id, path);
  if (path == "anon_inode:kfd_smi_ev")
    log_refused("file {:#x} receives events of a GPU (SMI): such files cannot be carried", id);
}

}  // namespace

void Dump::PauseTimer::stop() {
  if (!since) return;
  const auto time = Interruption::Clock::now() - *since;
  since.reset();
  log_info("GPU work was paused for {} ms",
           std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

Status Dump::lock_images() {
  if (!images_lock_.valid()) images_lock_ = TRY(env_.lock_images());
  return {};
}

Status Dump::pause(pid_t pid) {
  if (prepared_) return Error(EBUSY, "a process appeared after the first GPU image was written");
  if (!unpaused_)
    unpaused_.emplace([this] {
      if (env_.api.has_series())
        tree_.unpause_in_handler();
      else
        env_.api.unpause_in_handler();
    });
  interruption_.begin();
  if (!pause_timer_.since) {
    pause_timer_.since = Interruption::Clock::now();
    status_.phase("pausing");
  }
  dumped_.insert(pid);
  TRY(tree_.add(pid));
  return interruption_.check();
}

Result<const topology::Gpu*> Dump::gpu_of_id(uint32_t gpu_id) const {
  const auto gpu = std::ranges::find(gpus_, gpu_id, &topology::Gpu::gpu_id);
  if (gpu == gpus_.end())
    return Error::of(ENODEV, "GPU {:#x} is not in the topology in sysfs", gpu_id);
  return &*gpu;
}

Result<const topology::Gpu*> Dump::gpu_of_minor(unsigned minor) const {
  const auto gpu = std::ranges::find(gpus_, minor, &topology::Gpu::render_minor);
  if (gpu == gpus_.end())
    return Error::of(EOPNOTSUPP,
                     "the GPU of renderD{} is not in the topology that KFD has in sysfs; its "
                     "state cannot be carried",
                     minor);
  return &*gpu;
}

Status Dump::prepare() {
  if (prepared_) {
    Status status = saver_.finish_if_possible();
    if (doomed_) doomed_->set_writer(saver_.writer());
    return status;
  }
  prepared_ = true;
  Status status = save_all();
  if (!status.ok()) discard();
  return status;
}

Status Dump::finish() {
  Status status = saver_.finish();
  // The time may be over although the writer has ended, if CRIU itself was stopped or had no CPU.
  if (status.ok()) status = interruption_.check();
  if (status.ok()) status = memory_.check();
  if (!status.ok()) discard();
  if (doomed_) doomed_->set_writer(nullptr);
  return status;
}

void Dump::write_statistics() const {
  if (!has_written_ || !pause_timer_.since) return;
  const std::chrono::duration<double, std::micro> paused =
      Interruption::Clock::now() - *pause_timer_.since;
  const SaveCounts& counts = saver_.counts();
  amdgpu_criu::write_statistics(kDumpStatistics,
                                {{"paused_us", static_cast<uint64_t>(paused.count())},
                                 {"processes", processes_.size()},
                                 {"render_files", renders_.size()},
                                 {"bytes", counts.bytes},
                                 {"stored_bytes", counts.stored_bytes},
                                 {"zero_bytes", counts.zero_bytes},
                                 {"earlier_bytes", counts.earlier_bytes},
                                 {"submissions", counts.submissions}});
}

void Dump::succeed() {
  if (std::exchange(succeeded_, true)) return;
  tree_.close_opened();
  memory_.stop();
  if (has_work()) status_.phase("succeeded");
  write_statistics();
  pause_timer_.stop();
  unpaused_.reset();
  if (doomed_) doomed_->stop_watching();
}

// CRIU has closed the image directory by then.
void Dump::remove_images_of_living() {
  if (!doomed_ || !doomed_->all_continue()) return;
  status_.phase("failed", "CRIU has failed later, and the processes continue");
  doomed_->remove();
  remove_statistics(kDumpStatistics);
}

void Dump::discard() {
  if (doomed_) doomed_->set_writer(nullptr);
  if (!saver_.give_up()) disk_answers_ = false;
  if (!owns_images_) return;
  const auto directory = env_.image_directory();
  if (!directory.ok()) return;
  if (!disk_answers_) {
    owns_images_ = false;
    return log_warning(
        "the disk does not answer: incomplete images are left, which the next dump to this "
        "directory removes");
  }
  if (const Status removed = image::remove_files(*directory); !removed.ok())
    log_warning("{}", removed.error().message());
}

// Reads the state of all paused processes from the kernel. Refuses state that cannot be carried.
Status Dump::collect() {
  TRY(tree_.complete());
  gpus_ = TRY(env_.host.gpus());
  watch_open_gpus();
  for (const Member& member : tree_.members()) {
    if (member.vmas.empty() && !tree_.kfd_of(member.pid)) continue;
    image::Process process = describe(member);
    TRY(interruption_.check());
    if (const PausedClient* kfd = tree_.kfd_of(member.pid))
      TRY(checkpoint_kfd(member, *kfd, process));
    TRY(add_vmas(member, process));
    processes_.push_back(std::move(process));
  }
  // Files that only KFD has open are paused by now.
  if (tree_.carries_render() && !gpus_.empty()) TRY(check_outside());
  if (tree_.carries_render())
    for (const OpenRender& render : tree_.renders())
      if (render.paused) renders_.push_back(TRY(checkpoint_render(render, *render.paused)));
  if (tree_.carries_render() && !gpus_.empty()) TRY(check_outside_files());
  if (Status status = check_mappings(); !status.ok()) {
    // A file that is not carried is a better reason than its mappings.
    if (!tree_.carries_render()) TRY(check_renders());
    return status;
  }
  return {};
}

Status Dump::save_all() {
  TRY(lock_images());
  TRY(collect());
  // Images that an earlier dump left in the directory would count as images of this one.
  TRY(image::remove_files(TRY(env_.image_directory())));
  remove_statistics(kDumpStatistics);
  owns_images_ = true;
  std::vector<pid_t> pids;
  for (const Member& member : tree_.members()) pids.push_back(member.pid);
  doomed_ = TRY(DoomedImages::create(TRY(env_.image_directory()), pids));
  TRY(save_objects());
  return write_metadata();
}

image::Process Dump::describe(const Member& member) const {
  image::Process process;
  process.dump_id = id_;
  process.index = processes_.size();
  process.pid = member.number;
  process.comm = member.comm;
  process.opened = member.opened;
  return process;
}

Status Dump::checkpoint_kfd(const Member& member, const PausedClient& kfd,
                            image::Process& process) {
  const auto& info = kfd.info();
  auto state = TRY(env_.api.checkpoint(kfd.node(), tree_.session(), info));
  process.num_queues = info.num_queues;
  process.num_events = info.num_events;
  process.num_svm_ranges = info.num_svm_ranges;
  process.blob = std::move(state.blob);
  process.bos = std::move(state.bos);
  for (auto& device : state.devices) {
    const auto* gpu = TRY(gpu_of_id(device.actual_gpu_id));
    process.devices.push_back({device.gpu_id, device.actual_gpu_id, device.drm_file.valid(), *gpu});
    if (!device.drm_file.valid()) continue;
    TRY(tree_.add_closed(member, gpu->render_minor, device.drm_file));
    vms_.push_back({{process.index, device.gpu_id}, std::move(device.drm_file)});
  }
  process.imports = TRY(find_imports(process.bos));
  return {};
}

Result<image::Render> Dump::checkpoint_render(const OpenRender& open, const PausedClient& paused) {
  auto state = TRY(env_.api.checkpoint(paused.node(), tree_.session(), paused.info()));
  image::Render render;
  render.dump_id = id_;
  render.index = renders_.size();
  render.pid = open.number;
  render.comm = open.comm;
  render.holders = open.holders;
  render.gpu = *TRY(gpu_of_minor(open.minor));
  render.blob = std::move(state.blob);
  render.bos = std::move(state.bos);
  render.imports = TRY(find_imports(render.bos));
  for (const Vm& vm : vms_)
    if (TRY(host::same_file(vm.file.get(), open.file.get()))) render.vm = vm.id;
  return render;
}

// For a kernel that carries only KFD's VMs of them.
Status Dump::check_renders() {
  for (const OpenRender& render : tree_.renders()) {
    bool used = false;
    for (const Vm& vm : vms_) used = used || TRY(host::same_file(render.file.get(), vm.file.get()));
    if (!used) return not_carried(render.file.get());
  }
  return {};
}

Status Dump::need_any_render() {
  if (gpus_.empty()) gpus_ = TRY(env_.host.gpus());
  if (gpus_.empty()) return Error(ENODEV, "there is no GPU in the topology that KFD has in sysfs");
  if (!any_render_.valid()) any_render_ = TRY(env_.host.open_render(gpus_.front().render_minor));
  return {};
}

// RESTORE only finds these objects. They must have been created before, on their own GPU.
Result<std::vector<image::Exported>> Dump::find_imports(std::span<const kernel::Bo> bos) {
  std::vector<image::Exported> result;
  for (const kernel::Bo& bo : bos) {
    if (!(bo.flags & AMDGPU_CRIU_BO_IMPORTED)) continue;
    TRY(need_any_render());
    const Fd dmabuf =
        TRY(env_.api.dmabuf(kernel::render_node(any_render_), tree_.session(), bo.object_id));
    result.push_back(TRY(save_exported(dmabuf.get())));
  }
  return result;
}

// Any render node will do: the kernel finds the GPU.
Result<image::Exported> Dump::save_exported(int dmabuf) {
  TRY(need_any_render());
  image::Exported exported;
  exported.state =
      TRY(env_.api.save_exported(kernel::render_node(any_render_), tree_.session(), dmabuf));
  exported.gpu = *TRY(gpu_of_id(exported.state.bo.gpu_id));
  return exported;
}

Status Dump::add_objects() {
  auto add_imports = [&](const auto& record) {
    for (const image::Exported& exported : record.imports)
      saver_.add(exported.state.bo, exported.gpu);
  };
  for (const image::Process& process : processes_) {
    add_imports(process);
    for (const kernel::Bo& bo : process.bos)
      if (const image::Device* device = image::find_device(process, bo.gpu_id))
        saver_.add(bo, device->gpu);
  }
  for (const image::Render& render : renders_) {
    add_imports(render);
    for (const kernel::Bo& bo : render.bos)
      saver_.add(bo, *TRY(gpu_of_id(image::actual_gpu(render, bo))));
  }
  return saver_.check_indexes();
}

// To be called before CHECKPOINT. Others need not be opened, which may wake them up.
void Dump::watch_open_gpus() {
  for (const OpenRender& render : tree_.renders())
    if (const auto gpu = gpu_of_minor(render.minor); gpu.ok()) (void)memory_.watch(**gpu);
}

// GPUs of which the processes have closed the nodes are watched only now. The PROCESS_INFO of
// describe_kfd_file(), which comes later, refuses what they have lost before.
Status Dump::start_saving() {
  for (const topology::Gpu& gpu : saver_.gpus()) TRY(memory_.watch(gpu));
  return saver_.start();
}

Status Dump::save_objects() {
  TRY(add_objects());
  // A deadline could end that process, but not CRIU's own work meanwhile.
  const bool overlaps = env_.has_late_hook && env_.options.parallel && env_.options.timeout == 0;
  TRY(start_saving());
  doomed_->set_writer(saver_.writer());
  return overlaps ? Status() : finish();
}

// Waits until another process has done it.
Status Dump::write(const std::function<Status(const image::Directory& directory)>& work) {
  const image::Directory directory = TRY(env_.images());
  BoundedWork writer(interruption_, kSaves);
  TRY(writer.start(
      [&](const Background::Fail& fail) {
        if (const Status status = work(directory); !status.ok()) fail(status.error());
      },
      [&] { close(tree_.session()); }));
  const Status status = writer.finish();
  if (!writer.give_up()) disk_answers_ = false;
  return with_room(status, directory.fd);
}

Status Dump::write_metadata() {
  has_written_ = !processes_.empty() || !renders_.empty();
  if (!has_written_) return {};
  return write([this](const image::Directory& directory) -> Status {
    for (const image::Process& process : processes_)
      TRY(image::write_metadata_file(directory, image::process_file_name(process.index),
                                     image::Kind::kProcess, image::encode(process)));
    for (const image::Render& render : renders_)
      TRY(image::write_metadata_file(directory, image::render_file_name(render.index),
                                     image::Kind::kRender, image::encode(render)));
    return {};
  });
}

Result<FileKind> Dump::describe_kfd_file(int fd) {
  if (!tree_.has_session())
    return Error(EOPNOTSUPP, "/dev/kfd is open in a process that was not paused");
  const auto info = TRY(env_.api.process_info({fd, kernel::Node::Kind::kKfd}, tree_.session(), 0));
  const Member* member = tree_.member_of(info.pid);
  if (!member || !tree_.kfd_of(info.pid))
    return Error::of(EOPNOTSUPP, "process {} has /dev/kfd open but was not paused", info.pid);
  for (const image::Process& process : processes_)
    if (process.pid == member->number) return FileKind(image::KfdFile{process.index});
  return Error::of(EOPNOTSUPP, "process {} was not saved", info.pid);
}

Result<FileKind> Dump::describe_render_file(int fd, unsigned minor) {
  const OpenRender* render = TRY(tree_.find_render(fd, minor));
  if (!render)
    return Error::of(EOPNOTSUPP,
                     "{} is open in no process that was paused (its descriptor may be in flight in "
                     "a UNIX socket); it cannot be carried",
                     path_of(fd));
  for (size_t i = 0; i < renders_.size(); i++)
    if (&tree_.renders()[i] == render) return FileKind(image::RenderFile{renders_[i].index});
  for (const Vm& vm : vms_)
    if (TRY(host::same_file(fd, vm.file.get()))) return FileKind(image::VmFile{vm.id});
  return not_carried(fd);
}

Result<std::optional<FileKind>> Dump::describe_file(int fd, uint32_t id) {
  const auto node = env_.host.classify(fd);
  if (!node && env_.host.is_dmabuf(fd)) return describe_dmabuf(fd, id);
  if (!node) {
    warn_of_refused(path_of(fd), id);
    return std::optional<FileKind>();
  }
  if (node->kind == NodeKind::kCard)
    return Error::of(EOPNOTSUPP,
                     "{} is a card node; state of card nodes (screens, leases) cannot be carried, "
                     "only that of render nodes",
                     path_of(fd));
  TRY(prepare());
  return std::optional<FileKind>(node->kind == NodeKind::kKfd
                                     ? TRY(describe_kfd_file(fd))
                                     : TRY(describe_render_file(fd, node->minor)));
}

Result<bool> Dump::dump_file(int fd, uint32_t id) {
  auto what = TRY(describe_file(fd, id));
  if (!what) return false;
  if (const auto* exported = std::get_if<image::Exported>(&*what)) {
    saver_.add(exported->state.bo, exported->gpu);
    TRY(finish());
    TRY(start_saving());
    TRY(finish());
  }
  TRY(write_file(fd, id, std::move(*what)));
  return true;
}

// A dma-buf of another driver is left to that driver's plugin.
Result<std::optional<FileKind>> Dump::describe_dmabuf(int fd, uint32_t id) {
  auto leave = [&](const Error& error) {
    log_refused("descriptor of a dma-buf (file {:#x}): {}", id, error.message());
    return std::optional<FileKind>();
  };
  if (const Status status = need_any_render(); !status.ok()) return leave(status.error());
  const Status session = tree_.need_session(kernel::render_node(any_render_));
  if (!session.ok()) return leave(session.error());
  TRY(prepare());
  auto exported = save_exported(fd);
  if (!exported.ok()) {
    if (exported.error().code() == EOPNOTSUPP) return leave(exported.error());
    return std::move(exported).error();
  }
  // Dumped processes may have no handle of it.
  if (const host::DmabufFile* outside = outside_files_.same_dmabuf(fd))
    TRY(refuse_outside_dmabuf(outside->pid,
                              formatted("{} bytes, open as file {:#x}", outside->size, id)));
  return std::optional<FileKind>(std::move(*exported));
}

Status Dump::write_file(int fd, uint32_t id, FileKind what) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return Error::system("cannot read the flags of {}", path_of(fd));
  const uint32_t kept = flags & (O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME);
  has_written_ = true;
  const image::File file{id_, id, kept, std::move(what)};
  return write([&](const image::Directory& directory) {
    return image::write_metadata_file(directory, image::file_file_name(id), image::Kind::kFile,
                                      image::encode(file));
  });
}

}  // namespace amdgpu_criu::dump
