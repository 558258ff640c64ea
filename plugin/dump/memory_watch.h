// SPDX-License-Identifier: GPL-2.0
// Finds out whether GPUs lose their memory during a dump. The kernel refuses the state of processes
// whose memory was lost before, but what is copied later are the bytes that a reset has left.
#pragma once

#include <map>

#include "gpu/engine.h"
#include "host/host.h"

namespace amdgpu_criu::dump {

class MemoryWatch {
 public:
  // count: null: nothing is watched
  MemoryWatch(const host::Host& host, gpu::LossCounter count) : host_(host), count_(count) {}

  // From now on; further calls for the same GPU have no effect.
  Status watch(const topology::Gpu& gpu);
  // ENODATA if a GPU has lost its memory.
  Status check() const;
  void stop() { watched_.clear(); }

 private:
  struct Watched {
    topology::Gpu gpu;
    Fd file;
    uint32_t losses;  // at first
  };
  const host::Host& host_;
  gpu::LossCounter count_;
  std::map<unsigned, Watched> watched_;  // by render minor
};

}  // namespace amdgpu_criu::dump
