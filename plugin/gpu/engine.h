// SPDX-License-Identifier: GPL-2.0
// Asynchronous copies between BOs of one GPU and a bounded ring of pinned staging buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace gpu {

using base::Fd;
using base::Result;
using base::Status;

struct StagingSize {
  unsigned slots = 4;
  size_t bytes = 8u << 20;  // of each slot
};

// A dma-buf made known to the engine. Must outlive the copies that were started on it.
class Imported {
 public:
  virtual ~Imported() = default;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // The render-node file that it imports with. A BO that belongs to one VM (VM_ALWAYS_VALID) can be
  // imported only by a file on which operation DMABUF was called.
  virtual int file() const = 0;
  virtual unsigned slots() const = 0;
  virtual std::span<std::byte> staging(unsigned slot) = 0;
  virtual Result<std::unique_ptr<Imported>> import(const Fd& dmabuf, uint64_t size) = 0;

  // BO to the start of the slot, or the other way. The slot must be idle; it is busy until wait().
  virtual Status start_read(unsigned slot, Imported& from, uint64_t offset, size_t size) = 0;
  virtual Status start_write(unsigned slot, Imported& to, uint64_t offset, size_t size) = 0;
  // Returns at once for an idle slot. After an error the slot's contents are undefined.
  virtual Status wait(unsigned slot) = 0;
};

using EngineFactory = Result<std::unique_ptr<Engine>> (*)(Fd render_node, StagingSize staging);

// By SDMA, through libdrm_amdgpu, on a render-node file of its own.
Result<std::unique_ptr<Engine>> make_sdma_engine(Fd render_node, StagingSize staging);

}  // namespace gpu
