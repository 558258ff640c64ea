// SPDX-License-Identifier: GPL-2.0
// One step of the chain through one open file, in two submissions, or three if the GPU has a
// graphics ring:
//
//   SDMA      copies block X to Y, adds to Y's value
//   compute   (PM4) waits for it; copies Y's value to X, adds to X
//   graphics  (PM4, else a part of the second) waits for it; copies X's value to the history, and
//   one
//             page of X by the CP's own DMA
//
// The numbers are those of workload/chain_math.h, so the step determines all values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "render/device.h"
#include "workload/packets.h"

namespace e2e {

// BOs that all steppers of a chain share, in one file. All are visible to the CPU.
class SharedBlocks {
 public:
  // domain: of X and Y.
  static amdgpu_criu::Result<SharedBlocks> create(const RenderDevice& device, uint32_t domain);
  // Those of another file; descriptors in the order of export_all(). BOs of another GPU cannot be
  // mapped for the CPU: `cpu` has mappings to use instead.
  static amdgpu_criu::Result<SharedBlocks> import(const RenderDevice& device,
                                                  std::span<const amdgpu_criu::Fd> dmabufs,
                                                  const SharedBlocks* cpu);
  amdgpu_criu::Result<std::vector<amdgpu_criu::Fd>> export_all() const;

  // The initial values of X and Y.
  void prepare() const;
  // The values after a step.
  amdgpu_criu::Status check_step(uint64_t step) const;
  // Checks every byte by the CPU. Between steps nothing writes them.
  void check(uint64_t done, const std::string& seen_by, std::vector<std::string>& problems) const;

  static constexpr uint64_t kBlockSize = 64 << 10;
  static constexpr uint64_t kValue = 36 << 10;
  static constexpr uint64_t kHistorySlots = 512;
  static constexpr unsigned kCount = 4;

  std::vector<uint32_t> handles() const;
  const RenderBo& x() const { return bos_[0]; }
  const RenderBo& y() const { return bos_[1]; }
  const RenderBo& history() const { return bos_[2]; }
  const RenderBo& page() const { return bos_[3]; }
  const std::vector<RenderBo>& all() const { return bos_; }
  // The same BOs, with CPU mappings.
  const SharedBlocks& cpu() const { return cpu_ ? *cpu_ : *this; }

 private:
  SharedBlocks() = default;
  std::vector<RenderBo> bos_;
  const SharedBlocks* cpu_ = nullptr;
};

class Stepper {
 public:
  // compute_ring, sdma_ring: which of the GPU's kernel rings, modulo their number.
  static amdgpu_criu::Result<Stepper> create(const RenderDevice& device, const SharedBlocks& blocks,
                                             unsigned sdma_ring = 0, unsigned compute_ring = 0);

  // One for each engine.
  using Fences = std::vector<RenderFence>;
  // Starts after `after`, signals `signal` when it is complete.
  amdgpu_criu::Result<Fences> submit(uint64_t step, std::vector<SyncPoint> after,
                                     std::vector<SyncPoint> signal);
  amdgpu_criu::Status wait(const Fences& fences, unsigned timeout_ms) const;
  // Checks that waiting for old fences returns at once, and that contexts were not reset.
  amdgpu_criu::Status check_history() const;

  uint64_t submitted() const { return submitted_; }

 private:
  static constexpr uint64_t kIbSlot = 1024;
  static constexpr uint64_t kIbSlots = 32;  // more than the pending steps
  static constexpr unsigned kMostEngines = 3;
  static constexpr size_t kRemembered = 48;

  struct Engine {
    const char* name;
    uint32_t ip;
    unsigned ring;
    RenderContext context;
    uint64_t last = 0;  // the number of its latest submission
  };

  Stepper(const SharedBlocks& blocks, std::vector<Engine> engines, RenderBo ibs, SyncObject between,
          BoList list)
      : blocks_(&blocks),
        engines_(std::move(engines)),
        ibs_(std::move(ibs)),
        between_(std::move(between)),
        list_(std::move(list)) {}
  std::vector<Dwords> commands(uint64_t step) const;
  Submission put(const Dwords& commands, size_t engine);
  amdgpu_criu::Status follows(Engine& engine, const RenderFence& fence) const;
  void remember(const Fences& fences);

  const SharedBlocks* blocks_;
  std::vector<Engine> engines_;  // SDMA, compute, and graphics if there is a ring of it
  RenderBo ibs_;
  SyncObject between_;  // binary
  BoList list_;
  uint64_t submitted_ = 0;
  std::vector<Fences> oldest_, latest_;
};

// Copies through one open file, for memory that the CPU cannot access, and to read all memory by
// the GPU.
class RenderCopier {
 public:
  static amdgpu_criu::Result<RenderCopier> create(const RenderDevice& device, unsigned timeout_ms);
  // handles: every BO behind the addresses that is not always valid.
  amdgpu_criu::Status write(uint64_t va, std::span<const std::byte> bytes,
                            std::span<const uint32_t> handles);
  amdgpu_criu::Result<std::span<const std::byte>> read(uint64_t va, uint64_t bytes,
                                                       std::span<const uint32_t> handles);
  unsigned timeout_ms() const { return timeout_ms_; }
  static constexpr uint64_t kMost = 1 << 20;

 private:
  RenderCopier(RenderContext context, RenderBo staging, RenderBo ib, unsigned timeout_ms)
      : context_(std::move(context)),
        staging_(std::move(staging)),
        ib_(std::move(ib)),
        timeout_ms_(timeout_ms) {}
  amdgpu_criu::Status copy(uint64_t to, uint64_t from, uint64_t bytes,
                           std::span<const uint32_t> handles);

  RenderContext context_;
  RenderBo staging_, ib_;
  unsigned timeout_ms_;
};

}  // namespace e2e
