// SPDX-License-Identifier: GPL-2.0
#include "dump/dump.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "dump/contents.h"
#include "image/mappings.h"
#include "image/set.h"

namespace dump {
namespace {

using base::Error;
using host::NodeKind;

std::string path_of(int fd) {
  char path[256];
  const ssize_t length = readlink(std::format("/proc/self/fd/{}", fd).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : "a GPU node";
}

// What an earlier dump into the same directory left would be taken for ours.
Status remove_old_images(int directory) {
  for (const std::string& name : TRY(image::list_files(directory)))
    if (unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT)
      return Error::system("cannot remove the old image {}", name);
  return {};
}

}  // namespace

Dump::Member* Dump::find_member(pid_t pid) {
  auto found =
      std::ranges::find_if(members_, [&](Member& m) { return m.paused.info().pid == pid; });
  return found == members_.end() ? nullptr : &*found;
}

Status Dump::pause(pid_t pid) {
  if (prepared_) return Error(EBUSY, "a process appeared after the first GPU image was written");
  const auto files = TRY(env_.host.files_of(pid));
  for (const host::ProcessFile& file : files)
    if (file.node.kind == NodeKind::kKfd) TRY(pause_owner(file, pid));
  const auto vmas = TRY(env_.host.vmas_of(pid));
  if (vmas.empty() || find_member(pid)) return {};
  return Error::of(
      EOPNOTSUPP,
      "process {} ({}) has GPU memory mapped at {:#x} but no open /dev/kfd of its own; "
      "render-node state alone cannot be carried yet",
      pid, host::comm_of(pid), vmas.front().start);
}

Status Dump::pause_owner(const host::ProcessFile& file, pid_t found_in) {
  if (!session_.valid())
    session_ =
        TRY(env_.api.create_session(kernel::kfd_node(file.file), kernel::SessionKind::kCheckpoint));
  auto paused = PausedProcess::pause(env_.api, session_.get(), TRY(file.file.duplicate()));
  if (!paused.ok())
    return std::move(paused).error().within(
        std::format("pausing the GPU for process {} ({}), which has /dev/kfd open as descriptor {}",
                    found_in, host::comm_of(found_in), file.number));
  const pid_t owner = paused->info().pid;
  if (find_member(owner)) {
    // PROCESS_INFO is idempotent, but a second PausedProcess would unpause too early.
    paused->keep();
    return {};
  }
  auto vmas = TRY(env_.host.vmas_of(owner));
  const uint32_t index = members_.size();
  members_.push_back({std::move(*paused), std::move(vmas), {}, {}});
  Member& member = members_.back();
  member.image.dump_id = id_;
  member.image.index = index;
  member.image.pid = TRY(host::namespace_pid(owner));
  member.image.comm = host::comm_of(owner);
  base::log_info("paused the GPU queues of process {} ({})", owner, member.image.comm);
  return {};
}

Status Dump::prepare() {
  if (prepared_) return {};
  prepared_ = true;
  TRY(remove_old_images(TRY(env_.image_directory())));
  const auto gpus = TRY(env_.host.gpus());
  for (Member& member : members_) TRY(checkpoint(member, gpus));
  return {};
}

Status Dump::checkpoint(Member& member, const std::vector<topology::Gpu>& gpus) {
  const auto& info = member.paused.info();
  auto state = TRY(env_.api.checkpoint(member.paused.node(), session_.get(), info));
  image::Process& image = member.image;
  image.num_queues = info.num_queues;
  image.num_events = info.num_events;
  image.num_svm_ranges = info.num_svm_ranges;
  image.blob = std::move(state.blob);
  image.bos = std::move(state.bos);
  for (auto& device : state.devices) {
    auto gpu = std::ranges::find(gpus, device.actual_gpu_id, &topology::Gpu::gpu_id);
    if (gpu == gpus.end())
      return Error::of(ENODEV, "GPU {:#x} of process {} is not in the topology in sysfs",
                       device.actual_gpu_id, info.pid);
    image.devices.push_back({device.gpu_id, device.actual_gpu_id, device.drm_file.valid(), *gpu});
    member.drm_files.push_back(std::move(device.drm_file));
  }
  TRY(add_vmas(member));
  for (const image::Device& device : image.devices) TRY(write_contents(member, device));
  has_written_ = true;
  return image::write_metadata_file(TRY(env_.image_directory()),
                                    image::process_file_name(image.index), image::Kind::kProcess,
                                    image::encode(image));
}

Status Dump::add_vmas(Member& member) {
  image::Process& image = member.image;
  for (const host::ProcessVma& vma : member.vmas) {
    image::Vma record{vma.start, vma.end, vma.offset, vma.node.kind == NodeKind::kKfd, 0};
    if (!record.kfd) {
      auto device = std::ranges::find_if(image.devices, [&](const image::Device& d) {
        return d.gpu.render_minor == vma.node.minor;
      });
      if (device == image.devices.end())
        return Error::of(EOPNOTSUPP,
                         "process {} ({}) maps memory of render minor {} at {:#x}, a GPU that it "
                         "does not use through /dev/kfd; this cannot be carried yet",
                         image.pid, image.comm, vma.node.minor, vma.start);
      record.gpu_id = device->gpu_id;
    }
    TRY(image::check_mapping(image, record));
    image.vmas.push_back(record);
  }
  return {};
}

Status Dump::write_contents(Member& member, const image::Device& device) {
  std::vector<kernel::Bo> bos;
  uint64_t bytes = 0;
  for (const kernel::Bo& bo : member.image.bos) {
    if (!(bo.flags & AMDGPU_CRIU_BO_CONTENTS) || bo.gpu_id != device.gpu_id) continue;
    if (!saved_objects_.insert(bo.object_id).second) continue;
    bos.push_back(bo);
    bytes += bo.size;
  }
  if (bos.empty()) return {};
  const auto start = std::chrono::steady_clock::now();
  const std::string name = image::contents_file_name(member.image.index, device.gpu_id);
  auto engine = TRY(
      env_.make_engine(TRY(env_.host.open_render(device.gpu.render_minor)), env_.options.staging));
  auto writer = TRY(image::ContentsWriter::create(TRY(env_.image_directory()), name));
  auto dmabuf = [&](uint64_t id) {
    return env_.api.dmabuf(member.paused.node(), session_.get(), id);
  };
  auto objects = save_contents(*engine, bos, dmabuf, writer);
  if (!objects.ok()) return std::move(objects).error().within("writing " + name);
  TRY(writer.finish(
      image::encode(image::Contents{id_, member.image.index, device.gpu_id, std::move(*objects)})));
  const auto spent = std::chrono::steady_clock::now() - start;
  base::log_info("saved {} BOs, {} bytes of {} in {} ms", bos.size(), bytes, device.gpu.describe(),
                 std::chrono::duration_cast<std::chrono::milliseconds>(spent).count());
  return {};
}

Result<image::File> Dump::describe_kfd_file(int fd) {
  const auto info = TRY(env_.api.process_info({fd, kernel::Node::Kind::kKfd}, session_.get()));
  const Member* member = find_member(info.pid);
  if (!member)
    return Error::of(EOPNOTSUPP, "process {} has /dev/kfd open but was not paused", info.pid);
  return image::File{.process = member->image.index, .kfd = true};
}

Result<image::File> Dump::describe_render_file(int fd, unsigned minor) {
  for (const Member& member : members_)
    for (size_t i = 0; i < member.drm_files.size(); i++) {
      if (!member.drm_files[i].valid()) continue;
      if (TRY(host::same_file(fd, member.drm_files[i].get())))
        return image::File{.process = member.image.index, .gpu_id = member.image.devices[i].gpu_id};
    }
  return Error::of(EOPNOTSUPP,
                   "{} (render minor {}) is open in a file that KFD does not use: what was done "
                   "through it (BOs, contexts, syncobjs of graphics or media) cannot be carried "
                   "yet, so the dump is refused",
                   path_of(fd), minor);
}

Result<bool> Dump::dump_file(int fd, uint32_t id) {
  const auto node = env_.host.classify(fd);
  if (!node) return false;
  if (node->kind == NodeKind::kKfd && !session_.valid())
    return Error(EOPNOTSUPP, "/dev/kfd is open in a process that was not paused");
  TRY(prepare());
  image::File file = node->kind == NodeKind::kKfd ? TRY(describe_kfd_file(fd))
                                                  : TRY(describe_render_file(fd, node->minor));
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return Error::system("cannot read the flags of {}", path_of(fd));
  file.dump_id = id_;
  file.id = id;
  file.status_flags = flags & (O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME);
  TRY(image::write_metadata_file(TRY(env_.image_directory()), image::file_file_name(id),
                                 image::Kind::kFile, image::encode(file)));
  return true;
}

}  // namespace dump
