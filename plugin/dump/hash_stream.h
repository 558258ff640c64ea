// SPDX-License-Identifier: GPL-2.0
// Hashes of chunks that the GPU computes while chunks before them are copied.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "gpu/engine.h"

namespace amdgpu_criu::dump {

class HashStream {
 public:
  // The BOs stay imported until next() has returned all of their hashes.
  HashStream(gpu::Engine& engine, std::span<const gpu::Hashed> bos, uint32_t chunk_bytes);
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;
  ~HashStream();

  // Waits for the hash of the next chunk. An error: the GPU computes none, nor any after it.
  Result<gpu::ChunkHash> next();

 private:
  bool add(std::span<const gpu::ChunkHash> some);
  void end(Status status);

  std::mutex lock_;  // protects the members below, except the thread
  std::condition_variable changed_;
  std::vector<gpu::ChunkHash> hashes_;
  size_t next_ = 0;
  std::optional<Status> ended_;
  bool stop_ = false;
  std::jthread thread_;
};

}  // namespace amdgpu_criu::dump
