// SPDX-License-Identifier: GPL-2.0
// One dump: pauses processes, writes the images, and resumes the processes when destroyed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dump/doomed_images.h"
#include "dump/memory_watch.h"
#include "dump/object_saver.h"
#include "dump/outside_files.h"
#include "dump/tree.h"
#include "image/mappings.h"

namespace amdgpu_criu::dump {

class Dump {
 public:
  explicit Dump(DumpContext environment)
      : env_(std::move(environment)),
        interruption_(std::chrono::seconds(env_.options.timeout)),
        status_("dump", env_.options.status_fd, interruption_),
        tree_(env_.api, env_.host, interruption_),
        saver_(env_, tree_.session_file(), id_, interruption_, status_),
        memory_(env_.host, env_.count_losses) {}
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  // To be called first, so that CRIU has written nothing yet. Fails if another dump writes to the
  // image directory; further calls have no effect.
  Status lock_images();

  // To be called for every process of the tree before anything else. pid must be frozen and traced
  // by the caller. Refuses state that cannot be carried.
  Status pause(pid_t pid);

  // The process is dumped, too, but uses no GPU.
  void note_dumped(pid_t pid) { dumped_.insert(pid); }

  // Writes the images of all paused processes, the first time; refuses mappings that cannot be
  // carried.
  Status prepare();

  // Writes the image of one open file. False if it is not ours.
  Result<bool> dump_file(int fd, uint32_t id);

  // For a dry run, instead of prepare() and dump_file(): these refuse the same state, log the same
  // warnings about state that CRIU will refuse, and write nothing.
  Status examine();
  Status examine_file(int fd, uint32_t id);
  // The state of the paused processes.
  const std::vector<image::Process>& processes() const { return processes_; }
  const std::vector<image::Render>& renders() const { return renders_; }

  // Waits until all contents are saved. To be called when CRIU has done its own part.
  Status finish();

  // The dump has succeeded. From now on only the session keeps the processes paused.
  void succeed();
  // After succeed(): removes the images, unless a dumped process has ended or is ending.
  void remove_images_of_living();
  // The dump has failed: removes the images that it wrote.
  void discard();

  bool has_paused() const { return !tree_.empty(); }
  // False: no process uses a GPU.
  bool has_work() const { return has_paused() || has_written_; }
  bool has_paused(pid_t pid) const { return tree_.member_of(pid) != nullptr; }

  const StatusLines& status() const { return status_; }

  // True if there are images that a restore needs.
  bool has_written() const { return has_written_; }

 private:
  // A VM that KFD uses, and its file.
  struct Vm {
    image::VmId id;
    Fd file;
  };

  Result<const topology::Gpu*> gpu_of_id(uint32_t gpu_id) const;
  Result<const topology::Gpu*> gpu_of_minor(unsigned minor) const;
  image::Process describe(const Member& member) const;
  Status checkpoint_kfd(const Member& member, const PausedClient& kfd, image::Process& process);
  Status add_vmas(const Member& member, image::Process& process);
  Result<image::Render> checkpoint_render(const OpenRender& open, const PausedClient& paused);
  Result<std::vector<image::Exported>> find_imports(std::span<const kernel::Bo> bos);
  Result<image::Exported> save_exported(int dmabuf);
  Status need_any_render();
  Status check_renders();
  Status check_mappings() const;
  Status check_outside();
  Status check_outside_files();
  Status refuse_sharing(const std::string& what) const;
  Status refuse_outside_dmabuf(pid_t holder, const std::string& what) const;
  Status collect();
  Status save_all();
  // Adds all objects to saver_.
  Status add_objects();
  Status save_objects();
  void watch_open_gpus();
  Status start_saving();
  Status write(const std::function<Status(const image::Directory& directory)>& work);
  Status write_metadata();
  void write_statistics() const;

  Result<image::FileKind> describe_kfd_file(int fd);
  Result<image::FileKind> describe_render_file(int fd, unsigned minor);
  Result<std::optional<image::FileKind>> describe_dmabuf(int fd, uint32_t id);
  // None: the file is not ours.
  Result<std::optional<image::FileKind>> describe_file(int fd, uint32_t id);
  Status write_file(int fd, uint32_t id, image::FileKind what);

  // Logs how long the GPU work was paused; destroyed after tree_.
  struct PauseTimer {
    PauseTimer() = default;
    PauseTimer(const PauseTimer&) = delete;
    PauseTimer& operator=(const PauseTimer&) = delete;
    ~PauseTimer() { stop(); }
    void stop();
    std::optional<Interruption::Clock::time_point> since;
  };

  DumpContext env_;
  Fd images_lock_;
  PauseTimer pause_timer_;
  image::DumpId id_ = image::new_dump_id();
  Interruption interruption_;
  StatusLines status_;
  Tree tree_;
  ObjectSaver saver_;
  MemoryWatch memory_;      // until the contents are saved
  std::set<pid_t> dumped_;  // all processes of the tree
  OutsideFiles outside_files_;
  std::vector<topology::Gpu> gpus_;
  Fd any_render_;  // a file of our own, for calls that any node accepts
  std::vector<Vm> vms_;
  std::vector<image::Process> processes_;
  std::vector<image::Render> renders_;  // tree_.renders(), if this kernel carries those
  bool prepared_ = false;
  bool has_written_ = false;
  bool succeeded_ = false;
  bool owns_images_ = false;  // the images in the directory are of this dump
  bool disk_answers_ = true;
  std::unique_ptr<DoomedImages> doomed_;
  std::optional<AtSignal> unpaused_;  // destroyed before tree_ unpauses
};

}  // namespace amdgpu_criu::dump
