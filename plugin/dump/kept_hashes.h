// SPDX-License-Identifier: GPL-2.0
// What the VRAM of a paused tree was before it moved to host memory.
#pragma once

#include <vector>

#include "dump/tree.h"
#include "gpu/engine.h"

namespace amdgpu_criu::dump {

// VRAM of a paused tree on one GPU.
struct VramOfGpu {
  topology::Gpu gpu;
  std::vector<kernel::Bo> bos;  // each once
  uint64_t bytes() const;
};

class KeptHashes {
 public:
  struct Access {
    kernel::Api& api;
    const host::Host& host;
    const Tree& tree;
    gpu::EngineFactory make_engine;
  };

  // The GPUs compute the hashes of BOs that no process of the tree can write through a mapping.
  // What a GPU cannot hash is left out.
  static KeptHashes compute(const Access& access, const std::vector<VramOfGpu>& vram);

  uint64_t bytes() const;
  // Computes them again, for which the kernel moves the memory back, and returns the number of
  // bytes that were compared. A difference is EIO. BOs that a process has mapped since are left
  // out.
  Result<uint64_t> compare(const Access& access) const;

 private:
  struct Kept {
    VramOfGpu vram;
    std::vector<gpu::ChunkHash> hashes;  // of the BOs, one after another
  };
  std::vector<Kept> kept_;
};

// True if one of the mappings lets its process write to the BO, which is on the GPU of that render
// node.
bool is_writable(const kernel::Bo& bo, unsigned minor, std::span<const host::ProcessVma> vmas);

}  // namespace amdgpu_criu::dump
