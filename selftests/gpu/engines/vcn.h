// SPDX-License-Identifier: GPL-2.0
// The unified queue of VCN 4.0, and the power of its tiles. Its indirect buffers hold packages for
// firmware that is not modelled: they must be well formed, and have no effect.
#pragma once

#include <atomic>
#include <span>

#include "engines/context.h"

namespace gpu {

class VcnEngine final : public RegisterBlock {
 public:
  // context.asic has such an engine.
  explicit VcnEngine(Context& context) : context_(context), at_(*context.asic.vcn) {}

  amdgpu_criu::Status claim();
  std::string_view name() const override { return "VCN"; }
  uint32_t read(uint32_t dword) override;
  void write(uint32_t dword, uint32_t value) override;

  // The thread of the video engines. Executes the ring up to the write pointer if the doorbell is
  // the engine's.
  void doorbell(uint32_t offset, uint64_t value);
  void reset() { off_ = 0; }

 private:
  bool firmware_runs();
  amdgpu_criu::Status execute_ring(uint32_t wptr);
  amdgpu_criu::Status execute(std::span<const uint32_t> packet);
  amdgpu_criu::Status check_packages(Space space, uint64_t base, uint32_t dwords);

  Context& context_;
  const VcnRegisters& at_;
  std::atomic<uint32_t> off_ = 0;  // the tiles without power: a pair of bits each
};

}  // namespace gpu
