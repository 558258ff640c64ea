// SPDX-License-Identifier: GPL-2.0
// The state behind the hooks.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dump/dump.h"
#include "gpu/engine.h"
#include "host/host.h"
#include "kernel/kernel_api.h"
#include "restore/restore.h"
#include "stock/stock_api.h"

namespace amdgpu_criu::criu {

// The plugin's environment; a test replaces it before init().
struct Parts {
  std::unique_ptr<kernel::Api> api;
  host::Config host;
  gpu::EngineFactory make_engine;
  gpu::EngineCheck check_engine;
  gpu::LossCounter count_losses;
  // For a kernel without our series, and for images made on such a kernel.
  std::unique_ptr<stock::Ioctl> (*make_stock)() = stock::make_ioctl;
  std::string kfd_processes = stock::kKfdProcesses;
  std::string option_file = options::kFile;
  bool has_late_hook = false;  // CRIU calls DUMP_DEVICES_LATE
};
Parts real_parts();

class Plugin {
 public:
  static Result<std::unique_ptr<Plugin>> create(int stage, Parts parts);
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin();

  // To be called first in each hook.
  Status note_hook(const char* name) const { return faults_.at("hook", name); }

  Result<bool> checkpoint_devices(pid_t pid);
  Result<bool> dump_file(int fd, int id);
  Result<bool> handle_vma(const struct stat& status);
  // To be called when CRIU has done its own part of a dump.
  Result<bool> finish_contents();
  // After a failure, resumes the GPU work and removes all images. False: there is nothing to do.
  bool finish_dump(bool failed);
  // True after a dump that has succeeded: this object keeps the GPU work paused while it exists.
  bool keeps_paused() const { return dump_ != nullptr; }
  // To be called if CRIU reports an error after all: removes the images if the processes continue.
  void remove_images_of_living() { dump_->remove_images_of_living(); }
  // After a failed dump of GPU state: the text, if its disk was full.
  const std::string& full_disk() const { return full_disk_; }
  // Why CRIU's own part of a dump may have failed; empty: not known.
  const std::string& needs() const { return needs_; }

  Result<std::optional<Fd>> restore_file(int id);
  Result<std::optional<restore::NewMapping>> map(uint64_t start);
  // True in a CRIU that may call finish_restore(): 4.2 has a descriptor store when plugins start.
  bool announces_post_forking() const { return restore_ && store_->is_ready(); }
  // Returns when the tasks are restored and all contents are in place.
  Status finish_restore();
  Result<bool> resume(pid_t pid);
  // Why a restore fails: what the first of its processes has noted.
  void note_failure(std::string_view text) {
    if (restore_) restore_->note_failure(text);
  }
  std::string failure() const { return restore_ ? restore_->failure() : ""; }
  // To be called at the end of what has failed, before finish_dump().
  void report_failure(std::string_view reason) const;
  // To be called after each resume(): the processes that must not continue, because the restore has
  // failed in one of them. Each is returned once.
  std::vector<pid_t> doomed(pid_t pid, bool failed);

 private:
  Plugin(int stage, Parts parts);
  Status prepare();
  // The file with options of this restore alone; empty: there is none.
  Result<std::string> restore_file() const;
  void read_options();
  // False: the process uses no GPU.
  Result<bool> need_interface(pid_t pid);
  // Fails after a mistake in the options. To be called before they have an effect.
  Result<options::Options> checked_options() const;
  void note_needs(pid_t pid);
  kernel::Api& api() { return stock_ ? *stock_ : *parts_.api; }
  dump::Dump& dump();
  Status note_written();

  int stage_;
  Parts parts_;
  host::Host host_;
  std::unique_ptr<restore::FdStore> store_;
  options::Options options_;  // the defaults after a mistake
  std::optional<Error> options_mistake_;
  options::Faults faults_;
  std::unique_ptr<kernel::Api> stock_;  // replaces the one in parts_
  bool chosen_ = false;
  std::vector<pid_t> without_gpu_;  // processes before the first one that uses a GPU
  // At most one of them exists; they refer to the members above.
  std::unique_ptr<dump::Dump> dump_;
  std::string full_disk_;
  std::string needs_;
  bool required_ = false;  // CRIU knows that restore needs us
  std::unique_ptr<restore::Restore> restore_;
  std::vector<pid_t> resumed_;
  bool resume_failed_ = false;
};

// For tests: what exit() does.
void exit_for_test(int status);
// For tests: what the next init() works on.
void set_parts_for_test(Parts parts);

}  // namespace amdgpu_criu::criu
