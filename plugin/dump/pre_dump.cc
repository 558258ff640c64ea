// SPDX-License-Identifier: GPL-2.0
#include "dump/pre_dump.h"

#include <algorithm>

#include "base/log.h"
#include "host/remote.h"
#include "image/set.h"

namespace amdgpu_criu::dump {

using host::NodeKind;

Status PreDump::need_session(kernel::Node node) {
  if (session_.valid()) return {};
  if (!(TRY(env_.api.query(node)).features & AMDGPU_CRIU_FEATURE_LIVE))
    return Error(EOPNOTSUPP,
                 "the amdgpu module of this kernel cannot list the memory of a process that runs");
  gpus_ = TRY(env_.host.gpus());
  session_ = TRY(env_.api.create_session(node, kernel::SessionKind::kCheckpoint));
  return {};
}

// A process that has closed /dev/kfd may still have state of it.
Status PreDump::add(pid_t pid) {
  std::vector<host::ProcessFile> files = TRY(env_.host.files_of(pid));
  if (host::has_kfd(files) || !TRY(env_.host.kfd_state_of(pid)).exists) return add(pid, files);
  const auto opened = host::open_in(pid, env_.host.kfd_path());
  if (!opened.ok()) return add(pid, files);
  files.push_back({*opened, {NodeKind::kKfd, 0}});
  const Status status = add(pid, files);
  const Status closed = host::close_in(pid, *opened);
  return status.ok() ? closed : status;
}

Status PreDump::add(pid_t pid, std::span<const host::ProcessFile> files) {
  bool found = false;
  for (const host::ProcessFile& file : files) {
    if (file.node.kind == NodeKind::kCard) continue;
    const host::TakenFile taken = TRY(env_.host.take(pid, file));
    const Status status =
        file.node.kind == NodeKind::kKfd ? add_kfd(taken) : add_render(taken, file.node.minor, pid);
    if (!status.ok())
      return Error(status.error())
          .within(formatted("listing GPU memory of process {} ({})", pid, host::comm_of(pid)));
    found = true;
  }
  processes_ += found;
  return {};
}

const topology::Gpu* PreDump::find_gpu(uint32_t gpu_id) const {
  const auto gpu = std::ranges::find(gpus_, gpu_id, &topology::Gpu::gpu_id);
  return gpu == gpus_.end() ? nullptr : &*gpu;
}

// Imported BOs are listed where they were allocated, or left to the dump.
Status PreDump::add_kfd(const host::TakenFile& file) {
  const kernel::Node node{file.get(), kernel::Node::Kind::kKfd};
  TRY(need_session(node));
  const auto info = TRY(env_.api.live_info(node, session_.get(), 0));
  const auto state = TRY(env_.api.checkpoint(node, session_.get(), info));
  for (const kernel::Bo& bo : state.bos) {
    const auto device =
        std::ranges::find(state.devices, bo.gpu_id, &kernel::CheckpointDevice::gpu_id);
    if (bo.flags & AMDGPU_CRIU_BO_IMPORTED || device == state.devices.end()) continue;
    if (const auto* gpu = find_gpu(device->actual_gpu_id)) saver_.add(bo, *gpu);
  }
  return {};
}

Status PreDump::add_render(const host::TakenFile& file, unsigned minor, pid_t pid) {
  const kernel::Node node{file.get(), kernel::Node::Kind::kRender};
  TRY(need_session(node));
  const auto info = TRY(env_.api.live_info(node, session_.get(), pid));
  const auto gpu = std::ranges::find(gpus_, minor, &topology::Gpu::render_minor);
  if (gpu == gpus_.end()) return {};
  for (const kernel::Bo& bo : TRY(env_.api.checkpoint(node, session_.get(), info)).bos)
    if (!(bo.flags & AMDGPU_CRIU_BO_IMPORTED)) saver_.add(bo, *gpu);
  return {};
}

// A pre-dump, from which no process can be restored, must not replace the images of a dump.
Status PreDump::check_directory(int directory) const {
  for (const std::string& name : TRY(image::list_files(directory)))
    if (image::kind_of(name) != image::Kind::kContents)
      return Error::of(EEXIST, "the directory has a dump already ({})", name);
  return image::remove_files(directory);
}

Status PreDump::save() {
  const int directory = TRY(env_.image_directory());
  const Fd lock = TRY(env_.lock_images());
  TRY(check_directory(directory));
  const CaughtSignals signals;
  Status status = saver_.start();
  if (status.ok()) status = saver_.finish();
  if (status.ok() || !saver_.give_up()) return status;
  if (const Status removed = image::remove_files(directory); !removed.ok())
    log_warning("{}", removed.error().message());
  return status;
}

}  // namespace amdgpu_criu::dump
