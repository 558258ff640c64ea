// SPDX-License-Identifier: GPL-2.0
// Fills BOs from a contents file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "gpu/engine.h"
#include "image/chunk_files.h"
#include "image/set.h"
#include "kernel/kernel_api.h"
#include "pipeline/io_queue.h"
#include "pipeline/stage_times.h"
#include "pipeline/workers.h"

namespace amdgpu_criu::restore {

// Staging as in the options, but each slot has room for the largest chunk, and all have at most
// kMaxStaging.
gpu::StagingSize staging_for(const image::Contents& contents, gpu::StagingSize wanted);

struct FillCounts {
  uint64_t bytes = 0;        // of objects
  uint64_t zero_bytes = 0;   // of these, not stored
  uint64_t page_bytes = 0;   // of these, copied by the GPU from pages of files
  uint64_t submissions = 0;  // to the GPU
  pipeline::StageTimes times;
};

// Their index is large: it is not copied.
using Objects = std::vector<const image::Object*>;
Objects all_of(const image::Contents& contents);

struct FillOptions {
  ReportProgress progress{};
  pipeline::Workers* workers = nullptr;          // null: the caller's thread does the work
  pipeline::Transfer read = pipeline::transfer;  // what workers read with
  // The GPU copies plain chunks from the pages of files in memory. Nothing verifies them before:
  // the caller has to, afterwards.
  bool pages = false;
  unsigned most_slots = 0;  // that the engine may have; 0: those that it has
};

// No chunk reaches the GPU before its checksum was verified, which workers do, except from pages.
// Files in memory are read by the workers, too, others by the queue. Reads, checksums and copies on
// the GPU of different slots overlap. Many small objects share a slot.
Result<FillCounts> fill_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                                 const image::ChunkFiles& files, const Objects& objects,
                                 const gpu::ImportObject& import, const FillOptions& options = {});

// What one thread fills contents with.
struct FillTools {
  kernel::Api& api;
  gpu::EngineFactory make_engine;
  gpu::StagingSize staging;
  pipeline::IoQueue& queue;
  bool direct = true;
  bool gpu_hashes = true;  // the GPU compares what it has been filled with
  FillOptions options{};
};

struct FillReport : FillCounts {
  size_t objects = 0;
  uint64_t milliseconds = 0;
  uint64_t compared_bytes = 0;
  gpu::StagingSize staging;
  const char* io = "";     // the kind of I/O
  std::string not_direct;  // a file without direct I/O, if that was requested
  std::string not_pages;   // why pages of files were not copied by the GPU, after a try
};

// Fills these objects of one contents file through its own open file of their GPU. The session must
// have all of them. Logs nothing. Objects are independent of one another, as are calls with other
// tools: any number may run at the same time.
Result<FillReport> fill_objects(const FillTools& tools, const Fd& session, Fd render_node,
                                const image::Directory& images,
                                const image::Set::ContentsFile& file, const Objects& objects);

}  // namespace amdgpu_criu::restore
