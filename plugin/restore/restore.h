// SPDX-License-Identifier: GPL-2.0
// One restore. Made in CRIU's main process, which then forks the tasks: each works on its own copy
// of this object, and they share only SharedState and the FdStore.
#pragma once

#include <map>
#include <optional>

#include "gpu/engine.h"
#include "host/host.h"
#include "image/set.h"
#include "options/options.h"
#include "restore/fd_store.h"
#include "restore/shared_state.h"
#include "topology/planner.h"

namespace restore {

using base::Fd;
using base::Result;
using base::Status;

struct Environment {
  kernel::Api& api;
  const host::Host& host;
  FdStore& store;
  gpu::EngineFactory make_engine;
  options::Options options;
  Result<int> (*image_directory)();  // another descriptor in each process
};

struct NewMapping {
  uint64_t offset;
  // Of each mapping a descriptor of its own: CRIU knows every mapping of a device as another file,
  // takes the descriptor it is given, and closes it when it has mapped.
  Fd file;
};

class Restore {
 public:
  // Verifies all images and finds a GPU for each that was in use, before anything is created.
  static Result<Restore> create(Environment environment, image::Set images);

  bool empty() const { return images_.empty(); }

  // In the restored task: the open file that had this id; nullopt: not one of ours. The first call
  // in a process restores all of the process's GPU state.
  Result<std::optional<Fd>> open_file(uint32_t id);

  // In the restored task, when its files are open; nullopt: no GPU mapping was saved at `start`.
  Result<std::optional<NewMapping>> map(uint64_t start);

  // In CRIU's main process, VMAs being in place. False: that process has no GPU state.
  Result<bool> resume(pid_t pid);

 private:
  // What the calling task has restored. `bos` of the image have their new offsets.
  struct Task {
    pid_t pid = 0;
    uint32_t process = 0;
    int kfd_id = -1;                     // in the FdStore
    std::map<uint32_t, int> render_ids;  // by Device::gpu_id
    bool kfd_given = false;
    image::Process image;
  };

  Restore(Environment environment, image::Set images, topology::Assignment targets,
          std::map<uint32_t, unsigned> minors, SharedState shared)
      : env_(std::move(environment)),
        images_(std::move(images)),
        targets_(std::move(targets)),
        minors_(std::move(minors)),
        shared_(std::move(shared)) {}

  Result<Task*> task_for(const image::Process& process);
  Result<Task> restore_process(const image::Process& process);
  Result<Fd> join_session(const Fd& kfd);
  Result<std::map<uint32_t, Fd>> open_render_nodes(const image::Process& process);
  Status fill(const image::Process& process, const Fd& kfd, const Fd& session);
  Status fill_from(const image::Set::ContentsFile& file, const image::Process& process,
                   const Fd& kfd, const Fd& session);
  Result<Fd> take_file(Task& task, const image::File& file);

  Environment env_;
  image::Set images_;
  topology::Assignment targets_;         // actual gpu_id then to actual gpu_id now
  std::map<uint32_t, unsigned> minors_;  // render minor by actual gpu_id now
  SharedState shared_;
  std::optional<Task> task_;
};

}  // namespace restore
