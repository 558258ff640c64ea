// SPDX-License-Identifier: GPL-2.0
// One restore. Created in CRIU's main process, which then forks the tasks. Each task works on its
// own copy of this object; they share only SharedState and the FdStore.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/background.h"
#include "base/interruption.h"
#include "image/mappings.h"
#include "restore/filling.h"

namespace amdgpu_criu::restore {

struct NewMapping {
  uint64_t offset;
  // Each mapping gets its own descriptor: to CRIU, each mapping of a device is another file, whose
  // descriptor it closes after mmap().
  Fd file;
};

class Restore {
 public:
  // Verifies the images, and finds a GPU for each that was in use, before anything is created.
  static Result<std::unique_ptr<Restore>> create(RestoreContext environment, image::Set images);
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  // In CRIU's main process, if the restore has not ended: kills all processes that it has forked.
  ~Restore();

  bool empty() const { return images_.empty(); }
  const StatusLines& status() const { return status_; }
  // In any process. Only the first failure of all processes is kept.
  void note_failure(std::string_view text) { shared_.note_failure(text); }
  std::string failure() const { return shared_.failure(); }
  // To be called before any task is forked.
  Status start_background();

  // In a restored task: the open file that had this id; nullopt: not one of ours. CRIU calls this
  // in one of the tasks that have it. Restores first what the file needs, unless another task has
  // done so.
  Result<std::optional<Fd>> open_file(uint32_t id);

  // In a restored task, when its files are open; nullopt: no GPU mapping was saved at `start`.
  Result<std::optional<NewMapping>> map(uint64_t start);

  // In CRIU's main process, when it has forked the tasks. Returns when the tasks are done and all
  // contents are in place: CRIU announces the restore after that. Returns early if a task has
  // failed, which CRIU reports.
  Status finish();

  // In CRIU's main process, when all VMAs of all tasks are in place. False: that process has no GPU
  // state.
  Result<bool> resume(pid_t pid);

 private:
  Restore(RestoreContext environment, const Interruption& interruption, image::Set images,
          TargetGpus machine, Layout layout, SharedState shared);

  // In CRIU's main process, because a task in its own user namespace may not create a session.
  Status make_session();
  // The id of CRIU's file that is one of these.
  void wait_for_test(uint32_t id) const;
  Result<Fd> open_kind(const image::FileKind& kind);
  Result<Fd> open_kfd(const image::KfdFile& file);
  Result<Fd> open_vm(const image::VmFile& file);
  Result<Fd> open_render(const image::RenderFile& file);
  Result<Fd> open_dmabuf(const image::Exported& file);

  // These return when it is restored, by this task or by another one.
  Status ensure_process(const image::Process& process);
  Status ensure_render(const image::Render& render);
  // Done once, by the first task that needs it.
  Status restore_render_once(const image::Render& render);
  Status restore_process(const image::Process& process);
  Status restore_render(const image::Render& render);
  Status make_imports(std::span<const image::Exported> imports);
  Result<Fd> restore_exported(const image::Exported& exported);

  Result<Fd> session(kernel::Node node);
  // An open file of the render node of that source GPU, the same in all tasks.
  Result<Fd> shared_render(size_t file, uint32_t gpu_id);
  Result<Fd> shared_file(size_t file);
  Result<std::vector<kernel::RestoreDevice>> devices_of(const image::Process& process,
                                                        std::vector<Fd>& files);
  void keep_offsets(image::TableId table, std::span<const kernel::Bo> bos);

  const image::Process* own_process() const;
  const std::vector<kernel::Bo>& bos_of(image::TableId table) const;
  Result<NewMapping> new_mapping(const image::Process& process, const image::Vma& vma);
  image::Place best_place(const image::Process& process,
                          std::span<const image::Place> places) const;
  Status wait_for(const image::Process& process);
  Result<Fd> file_for(image::Place place);
  Status complete();
  Status resume_objects(pid_t pid, uint32_t number);
  void end();
  void write_statistics() const;
  Status check_complete() const;
  Status fetch_missing_memory(pid_t pid) const;

  RestoreContext env_;
  Interruption interruption_;
  StatusLines status_;
  image::Set images_;
  TargetGpus gpus_;
  Layout layout_;
  SharedState shared_;
  pid_t main_ = getpid();
  image::MappingIndex mappings_;
  Filling filling_;
  std::unique_ptr<Background> background_;  // of CRIU's main process
  std::set<uint32_t> not_resumed_;          // pids
  bool kfd_given_ = false;                  // of the calling task, to CRIU
  bool complete_ = false;
  bool ended_ = false;  // all work was resumed
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Clock::duration waited_{};  // for contents, when all tasks were complete
};

}  // namespace amdgpu_criu::restore
