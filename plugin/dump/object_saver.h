// SPDX-License-Identifier: GPL-2.0
// Saves the contents of the objects of one dump, each once whatever file or process names it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/bounded_work.h"
#include "base/status_lines.h"
#include "dump/save_contents.h"
#include "gpu/engine.h"
#include "host/host.h"
#include "image/records.h"
#include "options/options.h"

namespace amdgpu_criu::dump {

struct DumpContext {
  kernel::Api& api;
  const host::Host& host;
  gpu::EngineFactory make_engine;
  options::Options options;
  Result<int> (*image_directory)();
  // CRIU calls a hook after its own part of a dump: contents can be saved until then.
  bool has_late_hook = false;
  bool live = false;  // the processes run while their memory is saved
  gpu::LossCounter count_losses = nullptr;

  Result<image::Directory> images() const {
    return image::Directory{TRY(image_directory()), options.key};
  }
  // Locks the image directory for one dump, until the descriptor and its copies are closed: those
  // of processes that still write images, too. EBUSY if another dump has locked it.
  Result<Fd> lock_images() const;
};

// For messages.
inline constexpr char kSaves[] = "saves GPU memory";

class ObjectSaver {
 public:
  // session: the kernel's; it may be created later.
  ObjectSaver(const DumpContext& context, const Fd& session, const image::DumpId& id,
              const Interruption& interruption, const StatusLines& status)
      : env_(context), session_(session), id_(id), status_(status), writer_(interruption, kSaves) {}

  // Adds bo, an entry of any table, which is on that GPU.
  void add(const kernel::Bo& bo, const topology::Gpu& gpu);
  // Of the objects added since the last start().
  std::vector<topology::Gpu> gpus() const;
  // Refuses objects whose index would be larger than an image can have.
  Status check_indexes() const;
  // Saves the objects added since the last call in a process of its own: a contents file for each
  // GPU, all GPUs at the same time. The caller must have no threads.
  Status start();
  // Waits for what start() began. To be called before the next start(), and before the memory may
  // change.
  Status finish();
  // The part of finish() that does not wait.
  Status finish_if_possible();
  // Ends what start() began; its files are not complete. False: the disk does not answer.
  bool give_up() { return writer_.give_up(); }
  // The process of start(); null: there is none.
  const Pidfd* writer() const { return writer_.process(); }
  // The sum of all saved objects.
  const SaveCounts& counts() const { return counts_; }

 private:
  struct Batch {
    topology::Gpu gpu;
    std::vector<kernel::Bo> bos;
  };
  // Of a batch. Statistics are logged when all GPUs are done.
  struct Outcome {
    std::unique_ptr<image::ContentsWriter> writer;
    SaveCounts counts;
    std::unique_ptr<pipeline::Workers> workers;
    gpu::StagingSize staging;
    const char* io = "";
    bool gave_up_direct = false;
    uint64_t milliseconds = 0;
  };
  // In the process of start().
  using OnError = std::function<void(const Error&)>;
  void save(const image::Directory& directory, const OnError& on_error);
  void load_earlier(const image::Directory& directory);
  Status check_index(const Batch& batch) const;
  static void log_saved(const Batch& batch, const Outcome& outcome);
  Status open_files(const image::Directory& directory, uint64_t bytes,
                    std::vector<Outcome>& outcomes) const;
  Status save(const Batch& batch, Outcome& outcome);
  Result<Saved> save_contents_of(const Batch& batch, image::ContentsWriter& writer,
                                 Outcome& outcome);
  static uint64_t bytes_of(const Batch& batch);
  // Null: there is no usable one.
  const Earlier* find_earlier() const {
    return earlier_ && earlier_->has_hashes() ? &*earlier_ : nullptr;
  }
  std::vector<unsigned> threads() const;
  gpu::StagingSize staging(unsigned threads) const;

  const DumpContext& env_;
  const Fd& session_;
  const image::DumpId& id_;
  const StatusLines& status_;
  std::set<uint64_t> known_;
  std::map<uint32_t, Batch> pending_;  // by actual gpu_id
  SaveCounts counts_;
  uint32_t part_ = 0;      // number of the next call of start()
  Mapping shared_counts_;  // what the process has counted
  BoundedWork writer_;
  std::optional<Earlier> earlier_;  // in the process of start()
  Fd earlier_index_;                // what the first of these has read, for the others
};

}  // namespace amdgpu_criu::dump
