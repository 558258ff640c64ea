// SPDX-License-Identifier: GPL-2.0
// A GPU context: submits command buffers, and waits for them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/drm.h"

namespace amdgpu_criu::gpu {

// A command buffer in GPU memory, for the rings of an engine (AMDGPU_HW_IP_*).
struct CommandBuffer {
  uint32_t engine;
  uint64_t address;
  uint32_t dwords;
  uint32_t flags = 0;  // AMDGPU_IB_FLAG_*
  const char* what;    // the work, for errors
};

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(amdgpu_device* device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { amdgpu_cs_ctx_free(context_); }

  // bos: handles of what the commands use; one may be listed several times. Returns the number of
  // the fence.
  Result<uint64_t> submit(const CommandBuffer& commands, std::vector<uint32_t> bos);
  // Waits for a fence. An error if the work was lost, or if the GPU was reset and memory may be.
  Status wait(const CommandBuffer& commands, uint64_t fence);

 private:
  Context(amdgpu_device* device, amdgpu_context_handle context)
      : device_(device), context_(context) {}

  amdgpu_device* device_;
  amdgpu_context_handle context_;
  bool waits_in_kernel_;
};

}  // namespace amdgpu_criu::gpu
