// SPDX-License-Identifier: GPL-2.0
// Pages of image files in memory, from which a GPU copies without a CPU.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "gpu/engine.h"
#include "image/chunk_files.h"
#include "pipeline/workers.h"

namespace amdgpu_criu::restore {

class FilePages {
 public:
  // Of a window; workers prepare several at a time.
  static constexpr uint64_t kWindow = 16u << 20;

  FilePages(gpu::Engine& engine, pipeline::Workers& workers, const image::ChunkFiles& files)
      : engine_(engine), workers_(workers), files_(files) {}

  // The window with that place of the chunk's file. An error: the GPU cannot have these pages.
  Result<std::shared_ptr<const gpu::PageWindow>> at(const image::Chunk& chunk, uint64_t place);

 private:
  struct File {
    Mapping mapping;
    // By number; those used next.
    std::map<uint64_t, std::shared_ptr<const gpu::PageWindow>> windows;
  };
  Result<File*> open(const image::Chunk& chunk);
  Status prepare(File& file, uint64_t number);

  gpu::Engine& engine_;
  pipeline::Workers& workers_;
  const image::ChunkFiles& files_;
  std::map<uint32_t, File> by_source_;
};

}  // namespace amdgpu_criu::restore
