// SPDX-License-Identifier: GPL-2.0
// What the VRAM of a paused tree was, to be compared before its work continues.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "dump/tree.h"
#include "gpu/engine.h"

namespace amdgpu_criu::dump {

// VRAM of a paused tree on one GPU.
struct VramOfGpu {
  topology::Gpu gpu;
  std::vector<kernel::Bo> bos;  // each once
  // The processes that have it, by object id. It is freed when they have ended.
  std::map<uint64_t, std::set<pid_t>> owners{};
  uint64_t bytes() const;
};

// The last entry has the BOs of GPUs that KFD does not drive.
Result<std::vector<VramOfGpu>> vram_of(kernel::Api& api, const host::Host& host, Tree& tree);

// BOs and syncobjs that processes outside of the tree have as well.
Result<kernel::Outside> outside_of(kernel::Api& api, const host::Host& host, Tree& tree);

class KeptHashes {
 public:
  struct Access {
    kernel::Api& api;
    const host::Host& host;
    Tree& tree;
    gpu::EngineFactory make_engine;
  };

  // The GPUs compute the hashes of BOs that no process of the tree can write through a mapping.
  // What a GPU cannot hash is left out, and all if others might write: processes that share memory
  // with the tree or have a dma-buf of it, and those of the tree that have mapped a dma-buf.
  static KeptHashes compute(const Access& access, const std::vector<VramOfGpu>& vram);

  uint64_t bytes() const;
  // Computes them again, for which the kernel moves back what was moved, and returns the number of
  // bytes that were compared. A difference is EIO. What others might write by now is left out.
  Result<uint64_t> compare(const Access& access) const;

 private:
  std::vector<VramOfGpu> vram_;                      // what is compared
  std::vector<std::vector<gpu::ChunkHash>> hashes_;  // of each of these, BO after BO
};

}  // namespace amdgpu_criu::dump
