// SPDX-License-Identifier: GPL-2.0
// The VRAM of a paused tree in host memory. The kernel moves it back when the tree is unpaused.
#pragma once

#include "dump/kept_hashes.h"

namespace amdgpu_criu::dump {

class Suspension {
 public:
  // Moves the VRAM of the tree, which is paused, stopped and traced. Refuses a tree that shares GPU
  // memory with others, and one whose VRAM does not fit into host memory. `begin` gets the bytes
  // that will move. After an error some may have moved.
  static Result<Suspension> suspend(kernel::Api& api, const host::Host& host, Tree& tree,
                                    gpu::EngineFactory make_engine,
                                    const std::function<void(uint64_t)>& begin);

  uint64_t bytes() const { return bytes_; }
  uint64_t kept() const;
  // Bytes whose hashes are kept.
  uint64_t hashed() const { return hashes_.bytes(); }
  // Fails if a GPU has less VRAM free than the tree needs there. Processes that have ended need
  // none.
  Status check_room(const host::Host& host) const;
  // To be called before the tree is unpaused: EIO if memory is not what it was.
  Result<uint64_t> compare(kernel::Api& api, const host::Host& host, Tree& tree,
                           gpu::EngineFactory make_engine) const {
    return hashes_.compare({api, host, tree, make_engine});
  }

 private:
  // What could not be moved of an open file.
  struct Kept {
    std::set<pid_t> owners;
    uint64_t bytes;
  };
  std::vector<VramOfGpu> vram_;
  std::vector<Kept> kept_;
  KeptHashes hashes_;
  uint64_t bytes_ = 0;
};

// Host memory that programs can still get, as the kernel estimates it.
Result<uint64_t> available_host_memory(const std::string& meminfo = "/proc/meminfo");

}  // namespace amdgpu_criu::dump
