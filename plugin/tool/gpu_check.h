// SPDX-License-Identifier: GPL-2.0
// Contents of images on a GPU, without a restore: for `amdgpu-criu verify --gpu`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gpu/engine.h"
#include "image/chunk_files.h"
#include "pipeline/workers.h"
#include "topology/topology.h"

namespace amdgpu_criu::tool {

// By its number in the list of GPUs, gpu_id, or PCI address.
bool is_named(const topology::Gpu& gpu, size_t index, const std::string& name);

// Tests replace the GPU.
struct GpuCheckTools {
  gpu::EngineFactory make_engine = gpu::make_sdma_engine;
  Result<Fd> (*allocate)(const Fd& render_node, uint64_t bytes) = gpu::allocate_vram;
};

// Copies contents to VRAM that it allocates, at most 64 MiB at a time, as a restore does, and lets
// the GPU compute the hashes of what has arrived.
class GpuCheck {
 public:
  static Result<GpuCheck> create(const std::string& gpu);
  // name: of the GPU, for messages
  GpuCheck(Fd render, std::string name, GpuCheckTools tools = {});

  // "GPU 0x3aac (0000:03:00.0)"
  const std::string& name() const { return name_; }
  // Compares the objects that have hashes, and returns how many bytes they have; calls `done` with
  // the size of each. The error names the object: EBADMSG if the image is damaged, EIO if the GPU
  // has other bytes than the image.
  Result<uint64_t> compare(const image::ChunkFiles& files, const image::Contents& contents,
                           const std::function<void(uint64_t)>& done);

 private:
  Status add(gpu::Engine& engine, const image::ChunkFiles& files, const image::Object& object);
  Status flush(gpu::Engine& engine, const image::ChunkFiles& files);

  Fd render_;
  std::string name_;
  GpuCheckTools tools_;
  std::unique_ptr<pipeline::Workers> workers_;
  std::vector<image::Object> parts_;  // of objects; not two of one object
  uint64_t part_bytes_ = 0;
  uint64_t compared_ = 0;
};

}  // namespace amdgpu_criu::tool
