// SPDX-License-Identifier: GPL-2.0
// Copies the contents of GPU memory while the processes run, for a later dump to refer to.
#pragma once

#include "base/interruption.h"
#include "dump/object_saver.h"

namespace amdgpu_criu::dump {

class PreDump {
 public:
  explicit PreDump(DumpContext context) : env_(std::move(context)) {
    env_.options.incremental = true;
    env_.live = true;
  }
  PreDump(const PreDump&) = delete;
  PreDump& operator=(const PreDump&) = delete;

  // Lists the BOs of a process, which must be traced by the caller and may run.
  Status add(pid_t pid);
  // Copies the listed BOs. BOs that the processes free meanwhile exist until this object is
  // destroyed. Fails if the directory has a dump; after an error none of our images is left in it.
  Status save();

  // Processes with BOs.
  size_t processes() const { return processes_; }
  const SaveCounts& counts() const { return saver_.counts(); }

 private:
  Status need_session(kernel::Node node);
  Status add(pid_t pid, std::span<const host::ProcessFile> files);
  Status add_kfd(const host::TakenFile& file);
  Status add_render(const host::TakenFile& file, unsigned minor, pid_t pid);
  const topology::Gpu* find_gpu(uint32_t gpu_id) const;
  Status check_directory(int directory) const;

  DumpContext env_;
  image::DumpId id_ = image::new_dump_id();
  // No deadline, because nothing is paused.
  Interruption interruption_{std::chrono::seconds(0)};
  Fd session_;
  StatusLines status_{"pre-dump", env_.options.status_fd, interruption_};
  ObjectSaver saver_{env_, session_, id_, interruption_, status_};
  std::vector<topology::Gpu> gpus_;
  size_t processes_ = 0;
};

}  // namespace amdgpu_criu::dump
