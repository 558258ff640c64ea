// SPDX-License-Identifier: GPL-2.0
// Copies the contents of BOs into a contents file.
#pragma once

#include <span>
#include <vector>

#include "base/progress.h"
#include "dump/earlier.h"
#include "gpu/engine.h"
#include "image/records.h"
#include "pipeline/codec.h"
#include "pipeline/io_queue.h"
#include "pipeline/stage_times.h"
#include "pipeline/workers.h"

namespace amdgpu_criu::dump {

struct SaveOptions {
  uint32_t chunk_bytes = 256u << 10;
  pipeline::Compression compression{};
  bool hashes = false;               // for a later dump
  const Earlier* earlier = nullptr;  // chunks that it has are not written again
  ReportProgress progress{};
  pipeline::Workers* workers = nullptr;  // null: the caller's thread does the work
  bool gpu_hashes = false;               // the GPU computes hashes, if it can
  bool paused = false;                   // nothing writes to the memory meanwhile
  pipeline::Transfer write{};            // of workers to a file in memory; null: the fastest way
  unsigned most_slots = 0;               // that the engine may have; 0: those that it has
};

struct SaveCounts {
  uint64_t bytes = 0;          // of objects
  uint64_t zero_bytes = 0;     // of these, not stored
  uint64_t earlier_bytes = 0;  // of these, in earlier dumps
  uint64_t stored_bytes = 0;   // in the file
  uint64_t hashed_bytes = 0;   // of these, by the GPU
  uint64_t page_bytes = 0;     // copied by the GPU to pages of the file
  uint64_t submissions = 0;    // of copies
  pipeline::StageTimes times;

  // Adds the counts of other memory, but not the times.
  SaveCounts& operator+=(const SaveCounts& other) {
    bytes += other.bytes;
    zero_bytes += other.zero_bytes;
    earlier_bytes += other.earlier_bytes;
    stored_bytes += other.stored_bytes;
    hashed_bytes += other.hashed_bytes;
    page_bytes += other.page_bytes;
    submissions += other.submissions;
    return *this;
  }
};

struct Saved {
  std::vector<image::Object> objects;
  std::vector<image::Source> sources;
  SaveCounts counts;
};

// Copies on the GPU, the workers' part, and writes of different slots overlap. Many small objects
// share a slot, a submission and a write. If chunks need hashes and the GPU can compute them,
// chunks of zeros and those of an earlier dump are not copied, and all others have their places in
// the file before they are: if it is in memory, the GPU copies to its pages.
Result<Saved> save_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                            std::span<const kernel::Bo> bos, const gpu::ImportObject& import,
                            const SaveOptions& options, image::ContentsWriter& to);

}  // namespace amdgpu_criu::dump
