// SPDX-License-Identifier: GPL-2.0
#include "regs/partitions.h"

#include "asic/asic.h"
#include "regs/nbio.h"
#include "regs/nbio_7_9_0.h"

namespace gpu {
namespace {

constexpr uint32_t kMemoryCapability = nbio(reg::nbio_7_9_0::BIF_BX_PF0_PARTITION_MEM_CAP);
// The mode in 7:4.
constexpr uint32_t kComputeStatus = nbio(reg::nbio_7_9_0::BIF_BX_PF0_PARTITION_COMPUTE_STATUS);
// Modes in 11:4.
constexpr uint32_t kMemoryStatus = nbio(reg::nbio_7_9_0::BIF_BX_PF0_PARTITION_MEM_STATUS);

// AMDGPU_*_PARTITION_MODE.
enum Mode : uint32_t { kSpx = 0, kDpx = 1, kTpx = 2, kQpx = 3, kCpx = 4 };

uint32_t mode_of(size_t xccs, unsigned per_partition) {
  if (per_partition == 1) return kCpx;
  switch (xccs / per_partition) {
    case 2:
      return kDpx;
    case 3:
      return kTpx;
    case 4:
      return kQpx;
    default:
      return kSpx;
  }
}

}  // namespace

amdgpu_criu::Status Partitions::claim(Registers& registers) {
  TRY(registers.claim(*this, kMemoryCapability, kMemoryStatus));
  for (uint32_t xcc = 0; xcc < control_.size(); ++xcc) {
    const uint32_t dword = xcc * kInstanceStride + Partition::kControl;
    TRY(registers.claim(*this, dword, dword));
  }
  return {};
}

void Partitions::reset() {
  for (auto& control : control_) control = 0;
}

uint32_t Partitions::read(uint32_t dword) {
  switch (dword) {
    case kMemoryCapability:
      return memory_mode_;
    case kComputeStatus:
      return mode_of(control_.size(), Partition::of(0, control_[0]).count) << 4;
    case kMemoryStatus:
      return memory_mode_ << 4;
    default:
      return control_[dword / kInstanceStride];
  }
}

void Partitions::write(uint32_t dword, uint32_t value) {
  if (dword % kInstanceStride == Partition::kControl) control_[dword / kInstanceStride] = value;
}

}  // namespace gpu
