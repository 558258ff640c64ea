// SPDX-License-Identifier: GPL-2.0
// Distributes the filling of objects: to a background process, while the tasks are restored, or to
// the task that has created them.
#pragma once

#include <functional>
#include <set>

#include "base/status_lines.h"
#include "restore/fill_contents.h"
#include "restore/shared_state.h"
#include "restore/target_gpus.h"

namespace amdgpu_criu::restore {

class Filling {
 public:
  // In CRIU's main process, before it forks.
  Filling(const RestoreContext& environment, const image::Set& images, const TargetGpus& machine,
          const Layout& layout, SharedState& shared, const StatusLines& status);

  // To be called before tasks are forked, if another process will call fill_added().
  void leave_to_background() { in_background_ = true; }

  // In a restored task: the session has these objects now. They are filled when this returns,
  // unless the background process fills them.
  Status added(const std::set<uint64_t>& object_ids);

  // In the background process: fills added objects until all are filled or SharedState is closed.
  // Each GPU has a thread, which calls `on_error`; that does not return. So does this if there can
  // be no thread. Calls `on_ready` when all threads have their numbers.
  using OnError = std::function<void(const Error&)>;
  using OnReady = std::function<void()>;
  void fill_added(const OnError& on_error, const OnReady& on_ready);

  // True if all objects of all files were filled.
  Status check_all_filled() const;

 private:
  using File = image::Set::ContentsFile;
  struct Batch {
    const File* file;
    Objects objects;
  };
  // Returns added objects of the GPU that no other process fills. The caller must fill them.
  std::vector<Batch> take(uint32_t gpu_id);
  bool is_filled(uint32_t gpu_id) const;
  void create_threads();
  Status fill(const std::vector<Batch>& batches);
  Status fill(const Batch& batch);
  Status fill_while_added(uint32_t gpu_id);
  void report(uint32_t gpu_id, const Progress& progress) const;

  const RestoreContext& env_;
  const TargetGpus& gpus_;
  const Layout& layout_;
  SharedState& shared_;
  const StatusLines& status_;
  std::map<uint32_t, std::vector<const File*>> files_;  // by gpu_id of the images
  bool in_background_ = false;
  // In the background process.
  struct Threads {
    std::unique_ptr<pipeline::Workers> workers;
    std::unique_ptr<pipeline::IoQueue> io;
  };
  std::map<uint32_t, Threads> threads_;  // by gpu_id of the images
};

}  // namespace amdgpu_criu::restore
