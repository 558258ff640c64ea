// SPDX-License-Identifier: GPL-2.0
// Fills BOs from a contents file.
#pragma once

#include <span>

#include "gpu/engine.h"
#include "image/chunk_files.h"
#include "pipeline/io_queue.h"
#include "pipeline/stage_times.h"

namespace amdgpu_criu::restore {

// Staging of the options, but no slot smaller than the largest chunk, and no more than kMaxStaging.
gpu::StagingSize staging_for(const image::Contents& contents, gpu::StagingSize wanted);

struct FillCounts {
  uint64_t bytes = 0;        // of objects
  uint64_t zero_bytes = 0;   // of these, not stored
  uint64_t submissions = 0;  // to the GPU
  pipeline::StageTimes times;
};

// No chunk reaches the GPU before its checksum was found right. Reads, sums and copies on the GPU
// of different slots are under way at the same time. Many small objects share a slot.
Result<FillCounts> fill_contents(gpu::Engine& engine, pipeline::IoQueue& queue,
                                 const image::ChunkFiles& files,
                                 std::span<const image::Object> objects,
                                 const gpu::ImportObject& import);

}  // namespace amdgpu_criu::restore
