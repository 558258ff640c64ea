// SPDX-License-Identifier: GPL-2.0
// The environment of a restore, and the GPU of this machine that replaces each GPU of the images.
#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/interruption.h"
#include "gpu/engine.h"
#include "host/host.h"
#include "image/set.h"
#include "options/faults.h"
#include "options/options.h"
#include "restore/nodes.h"
#include "restore/reservation.h"
#include "restore/shared_state.h"
#include "topology/planner.h"

namespace amdgpu_criu::restore {

// What CRIU's main process waits for. It goes on when no task is busy, and fails when one has
// failed.
enum class Tasks { kUnknown, kBusy, kDone, kFailed };

struct RestoreContext {
  kernel::Api& api;
  const host::Host& host;
  FdStore& store;
  gpu::EngineFactory make_engine;
  gpu::EngineCheck check_engine;
  gpu::LossCounter count_losses;
  options::Options options;
  const options::Faults& faults;
  Result<int> (*image_directory)();  // another descriptor in each process
  Tasks (*tasks)();                  // in CRIU's main process

  Result<image::Directory> images() const {
    return image::Directory{TRY(image_directory()), options.key};
  }
};

class TargetGpus {
 public:
  // In CRIU's main process, before tasks are forked: finds a GPU for each of the images that a
  // process uses, and for each other one if there is one left. May wait for memory that others free
  // or are about to allocate.
  static Result<TargetGpus> create(const RestoreContext& environment, const image::Set& images,
                                   const Interruption& interruption);

  // In a restored task, before any other call: chooses again if its container lacks the chosen
  // GPUs. The choice of the first task holds for all.
  Status settle() const;

  // In a restored task: that process of the images has its memory now. The reservation, which the
  // memory that the kernel counts as used would add to, ends for this part.
  void note_allocated(uint32_t process) const;
  // For CRIU's main process, when the tasks have allocated their memory.
  void release_room() { reservation_.reset(); }

  // Lacks GPUs that are left out, because no process uses them.
  topology::Assignment targets() const;
  // source: actual gpu_id of the images. 0: it is left out
  uint32_t target(uint32_t source) const;
  // ENODATA if the GPU has lost its memory since any process of the restore opened its node first.
  Result<Fd> open_render(uint32_t source) const;
  // For CRIU's main process, after the last open_render(): opens the chosen GPUs once more, to fail
  // now and in check_memory() if one has lost its memory.
  Status watch_memory();
  Status check_memory() const;
  void stop_watching() { watched_.clear(); }
  Result<Fd> open_kfd() const { return nodes_.open_kfd(); }

 private:
  struct Choice;
  using Gpus = std::vector<topology::Gpu>;

  TargetGpus(const RestoreContext& environment, Nodes nodes, const image::Set& images, Gpus here);
  Status make_first_choice(const image::Set& images, const Interruption& interruption);
  Choice& choice() const;
  std::span<std::atomic<uint32_t>> chosen() const;
  std::span<std::atomic<uint32_t>> losses() const;
  Status check_losses(const topology::Gpu& gpu, const Fd& file) const;
  void choose(const topology::Assignment& targets) const;
  Status resolve_map();
  Status find_candidates();
  bool is_used(const topology::Gpu& source) const { return !unused_.contains(source.gpu_id); }
  bool suits_task() const;
  void leave_out_closed(topology::Assignment& targets) const;
  void look_at_memory();
  Reservation::Bytes needed_by(const topology::Assignment& targets) const;
  Result<topology::Assignment> try_plan(bool& fits_without_others);
  Result<topology::Assignment> plan_with_room(const Interruption& interruption);
  Result<topology::Assignment> plan(const Gpus& among, const topology::Room& room) const;
  Result<topology::Assignment> plan(const Gpus& among) const { return plan(among, room_); }
  Result<topology::Assignment> plan_in_task() const;

  RestoreContext env_;
  Nodes nodes_;
  Gpus sources_;
  std::set<uint32_t> unused_;  // sources that no process uses
  Gpus here_;
  // Those that the engine gives to the container and those that the map names, or else all.
  Gpus candidates_;
  topology::Room room_;
  std::map<uint32_t, image::Set::Vram> needed_;  // by process and source
  topology::Assignment reserved_on_;
  std::optional<Reservation> reservation_;
  Mapping shared_;                  // by all tasks
  std::map<uint32_t, Fd> watched_;  // by gpu_id
};

}  // namespace amdgpu_criu::restore
