// SPDX-License-Identifier: GPL-2.0
// BLAKE3 by a compute kernel of ours, kernels/blake3.cl, on a compute ring of the kernel driver.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/drm.h"
#include "gpu/engine.h"
#include "gpu/hash_kernel.h"

namespace amdgpu_criu::gpu {

class Context;
class MappedBo;

class ChunkHasher {
 public:
  // Fails if there is no kernel for the GPU, or if a known answer is wrong.
  static Result<std::unique_ptr<ChunkHasher>> create(amdgpu_device* device);
  ChunkHasher(const ChunkHasher&) = delete;
  ChunkHasher& operator=(const ChunkHasher&) = delete;
  ~ChunkHasher();

  // BOs are whole KiB, chunk_bytes is whole KiB, at most 64 MiB.
  Status hash(std::span<const Hashed> bos, uint32_t chunk_bytes, const TakeHashes& take);

 private:
  // A dispatch: chunks of one BO.
  struct Part {
    const MappedBo* bo;
    uint64_t offset;
    uint64_t size;
    uint32_t chunks;
  };
  explicit ChunkHasher(HashKernel kernel) : kernel_(std::move(kernel)) {}
  Status prepare(amdgpu_device* device);
  Status test_itself(amdgpu_device* device);
  // Returns the hashes of the parts, until the next call.
  Result<std::span<const ChunkHash>> run(std::span<const Part> parts, uint32_t chunk_bytes);
  Result<uint32_t> write_commands(std::span<const Part> parts, uint32_t chunk_bytes);
  std::byte* at(uint64_t offset) const { return bytes_.data() + offset; }

  HashKernel kernel_;
  std::unique_ptr<Context> context_;
  // The kernel's code, arguments, commands and results.
  std::unique_ptr<MappedBo> memory_;
  std::span<std::byte> bytes_;
  std::vector<ChunkHash> hashes_;
  uint32_t limit_;  // chunks in a submission
};

}  // namespace amdgpu_criu::gpu
