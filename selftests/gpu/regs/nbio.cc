// SPDX-License-Identifier: GPL-2.0
#include "regs/nbio.h"

#include <cstring>

#include "regs/nbio_7_4.h"
#include "regs/nbio_7_9_0.h"

namespace gpu {
namespace {

constexpr uint32_t kMmIndex = nbio(reg::nbio_7_4::MM_INDEX);
constexpr uint32_t kMmData = nbio(reg::nbio_7_4::MM_DATA);
constexpr uint32_t kMmIndexHigh = nbio(reg::nbio_7_4::MM_INDEX_HI);
constexpr uint32_t kPcieIndex2High = nbio(reg::nbio_7_9_0::BIF_BX0_PCIE_INDEX2_HI);
constexpr uint32_t kBiosScratch = nbio(reg::nbio_7_4::BIOS_SCRATCH_0);
constexpr uint32_t kConfigMemSize = nbio(reg::nbio_7_4::RCC_CONFIG_MEMSIZE);  // MiB
// 0: a physical function.
constexpr uint32_t kIovFunction = nbio(reg::nbio_7_4::RCC_IOV_FUNC_IDENTIFIER);
constexpr uint32_t kHdpFlushRequest = nbio(reg::nbio_7_4::GPU_HDP_FLUSH_REQ);
constexpr uint32_t kHdpFlushDone = nbio(reg::nbio_7_4::GPU_HDP_FLUSH_DONE);

constexpr uint32_t kIndexVram = 1u << 31;
constexpr uint32_t kScratch3 = 3;
constexpr uint32_t kScratch3EngineHung = 0x20000000;  // ATOM_S3_ASIC_GUI_ENGINE_HUNG
constexpr uint32_t kScratch7 = 7;
constexpr uint32_t kScratch7InitComplete = 0x200;  // ATOM_S7_ASIC_INIT_COMPLETE

}  // namespace

amdgpu_criu::Status Nbio::claim() {
  for (const uint32_t one : {kMmIndex, kMmData, kMmIndexHigh, kConfigMemSize, kIovFunction,
                             kHdpFlushRequest, kHdpFlushDone, spec_.hdp_flush})
    TRY(registers_.claim(*this, one, one));
  TRY(registers_.claim(*this, spec_.smn_index, spec_.smn_index + 1));
  if (spec_.extended_smn) TRY(registers_.claim(*this, kPcieIndex2High, kPcieIndex2High));
  return registers_.claim(*this, kBiosScratch, kBiosScratch + kScratchWords - 1);
}

void Nbio::reset() {
  for (auto& word : scratch_) word = 0;
  // After a reset, the state is that after the BIOS: the driver need not post the board.
  scratch_[kScratch7] = kScratch7InitComplete;
  index_ = index_high_ = smn_index_ = smn_index_high_ = 0;
  const std::lock_guard lock(mutex_);
  smn_ = spec_.smn;
}

bool Nbio::engine_hung() const { return scratch_[kScratch3] & kScratch3EngineHung; }

std::span<std::byte> Nbio::indirect_vram() {
  const uint64_t offset = (index_ & ~kIndexVram) | uint64_t{index_high_} << 31;
  if (offset % 4 || offset >= vram_.size()) return {};
  return vram_.subspan(offset, 4);
}

uint32_t Nbio::read_indirect() {
  if (!(index_ & kIndexVram)) {
    const uint32_t dword = index_ / 4;
    return dword == kMmData ? 0 : registers_.read(dword);
  }
  uint32_t value = 0;
  if (const auto bytes = indirect_vram(); !bytes.empty()) memcpy(&value, bytes.data(), 4);
  return value;
}

void Nbio::write_indirect(uint32_t value) {
  if (!(index_ & kIndexVram)) {
    const uint32_t dword = index_ / 4;
    if (dword != kMmData) registers_.write(dword, value);
    return;
  }
  if (const auto bytes = indirect_vram(); !bytes.empty()) memcpy(bytes.data(), &value, 4);
}

uint32_t Nbio::read_smn() {
  const std::lock_guard lock(mutex_);
  const auto it = smn_.find(smn_address());
  return it == smn_.end() ? 0 : it->second;
}

void Nbio::write_smn(uint32_t value) {
  constexpr size_t kMaxSmnRegisters = 4096;
  const std::lock_guard lock(mutex_);
  if (smn_.size() < kMaxSmnRegisters || smn_.contains(smn_address())) smn_[smn_address()] = value;
}

uint32_t Nbio::read(uint32_t dword) {
  if (dword == spec_.smn_index) return smn_index_;
  if (dword == spec_.smn_index + 1) return read_smn();
  if (dword == spec_.hdp_flush) return 0;
  switch (dword) {
    case kMmIndex:
      return index_;
    case kMmData:
      return read_indirect();
    case kMmIndexHigh:
      return index_high_;
    case kPcieIndex2High:
      return smn_index_high_;
    case kConfigMemSize:
      return static_cast<uint32_t>(vram_.size() >> 20);
    case kHdpFlushDone:
      return ~0u;  // requests complete at once
    case kIovFunction:
    case kHdpFlushRequest:
      return 0;
    default:
      return scratch_[dword - kBiosScratch];
  }
}

void Nbio::write(uint32_t dword, uint32_t value) {
  if (dword == spec_.smn_index) {
    smn_index_ = value;
    return;
  }
  if (dword == spec_.smn_index + 1) return write_smn(value);
  if (dword == spec_.hdp_flush) return spec_.flush_hdp();
  switch (dword) {
    case kMmIndex:
      index_ = value;
      return;
    case kMmData:
      return write_indirect(value);
    case kMmIndexHigh:
      index_high_ = value;
      return;
    case kPcieIndex2High:
      smn_index_high_ = value;
      return;
    case kConfigMemSize:
    case kHdpFlushRequest:
      return spec_.flush_hdp();
    case kIovFunction:
    case kHdpFlushDone:
      return;
    default:
      scratch_[dword - kBiosScratch] = value;
  }
}

}  // namespace gpu
