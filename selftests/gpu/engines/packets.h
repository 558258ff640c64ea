// SPDX-License-Identifier: GPL-2.0
// Packet opcodes and doubleword positions, as the gfx90a command processor and SDMA 4.4 read them.
// Facts: amdgpu's soc15d.h and vega10_sdma_pkt_open.h, amdkfd's kfd_pm4_headers_*.h, v9_structs.h;
// Mesa's sid.h for SET_*_REG_PAIRS_PACKED.
#pragma once

#include <cstdint>

#include "regs/sdma_4_4_2.h"

namespace gpu {

constexpr uint32_t bits(uint32_t value, unsigned high, unsigned low) {
  return (value >> low) & (0xffffffffu >> (31 - (high - low)));
}
constexpr uint64_t join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
constexpr uint32_t low32(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t high32(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
// Of an address with 48 bits, the upper bits are copies of the last.
constexpr uint64_t canonical(uint64_t address) {
  return static_cast<uint64_t>(static_cast<int64_t>(address << 16) >> 16);
}

// Type-3 packets: [31:30] = 3, [29:16] = body doublewords - 1, [15:8] = opcode.
namespace pm4 {
enum Opcode : uint8_t {
  kNop = 0x10,
  kSetBase = 0x11,
  kClearState = 0x12,
  kDispatchDirect = 0x15,
  kDispatchIndirect = 0x16,
  kAtomicMem = 0x1e,
  kCondExec = 0x22,
  kPredExec = 0x23,
  kContextControl = 0x28,
  kWriteData = 0x37,
  kWaitRegMem = 0x3c,
  kIndirectBuffer = 0x3f,
  kCopyData = 0x40,
  kPfpSyncMe = 0x42,
  kCondWrite = 0x45,
  kEventWrite = 0x46,
  kReleaseMem = 0x49,
  kPreambleControl = 0x4a,
  kDmaData = 0x50,
  kAcquireMem = 0x58,
  kRewind = 0x59,
  kSetConfigReg = 0x68,
  kSetContextReg = 0x69,
  kSetShReg = 0x76,
  kSetUconfigReg = 0x79,
  kSetUconfigRegIndex = 0x7a,
  kSwitchBuffer = 0x8b,
  kFrameControl = 0x90,
  kWaitRegMem64 = 0x93,
  kInvalidateTlbs = 0x98,
  kSetShRegIndex = 0x9b,
  kSetResources = 0xa0,
  kMapProcess = 0xa1,
  kMapQueues = 0xa2,
  kUnmapQueues = 0xa3,
  kQueryStatus = 0xa4,
  kRunList = 0xa5,
  kSetContextRegPairsPacked = 0xb9,  // these three since GFX11
  kSetShRegPairsPacked = 0xbb,
  kSetShRegPairsPackedN = 0xbd,
  kProtectedFenceSignal = 0xd0,
  kRunCleanerShader = 0xd7,
};
// The first word of a NOP that occupies a user queue; the second has the milliseconds.
constexpr uint32_t kOccupy = 0x79737562;

// First register (absolute doubleword) that the offset of a SET_*_REG packet counts from.
constexpr uint32_t kConfigRegs = 0x2000;
constexpr uint32_t kShRegs = 0x2c00;
constexpr uint32_t kContextRegs = 0xa000;
constexpr uint32_t kUconfigRegs = 0xc000;

constexpr uint32_t kFillerCount = 0x3fff;  // NOP with this count is a header without a body
}  // namespace pm4

namespace sdma {
enum Opcode : uint8_t {
  kNop = 0,
  kCopy = 1,
  kWrite = 2,
  kIndirect = 4,
  kFence = 5,
  kTrap = 6,
  kPollRegMem = 8,
  kCondExe = 9,
  kAtomic = 10,
  kConstFill = 11,
  kPtePde = 12,
  kTimestamp = 13,
  kSrbmWrite = 14,
  kPreExe = 15,
  kDummyTrap = 16,
  kGcrReq = 17,
};
enum CopySubop : uint8_t { kCopyLinear = 0, kCopyLinearSubWindow = 4 };
enum PollSubop : uint8_t { kPoll = 0, kPollRegWriteMem = 1, kVmInvalidation = 4 };
enum TimestampSubop : uint8_t { kTimestampSet = 0, kTimestampGet = 1, kTimestampGetGlobal = 2 };
}  // namespace sdma

// A 64-byte packet of an AQL queue; the low byte of the header is its type.
namespace aql {
enum Type : uint8_t {
  kVendor = 0,
  kInvalid = 1,
  kKernelDispatch = 2,
  kBarrierAnd = 3,
  kAgentDispatch = 4,
  kBarrierOr = 5,
};
enum VendorFormat : uint8_t { kPm4Ib = 1, kBarrierValue = 2 };
constexpr uint32_t kPacketBytes = 64;
constexpr uint32_t kPacketDwords = 16;
constexpr uint32_t kCompletionSignalDword = 14;
constexpr unsigned kDependencies = 5;

// amd_signal_t, in bytes.
constexpr uint64_t kSignalValue = 8;
constexpr uint64_t kSignalMailbox = 16;
constexpr uint64_t kSignalEventId = 24;
constexpr uint64_t kSignalStart = 32;
constexpr uint64_t kSignalEnd = 40;

// amd_queue_t, from its read_dispatch_id, which is what CP_HQD_PQ_RPTR_REPORT_ADDR points to.
constexpr uint64_t kReadIdOffsetField = 8;  // holds kReadIdOffset in a queue of ROCr
constexpr uint32_t kReadIdOffset = 128;
constexpr uint64_t kTmpringSize = 12;
constexpr uint64_t kScratchDescriptor = 16;
constexpr uint64_t kScratchLocation = 32;
constexpr uint64_t kScratchLaneBytes = 48;  // of a wave of 64
constexpr uint64_t kQueueProperties = 52;
constexpr uint64_t kInactiveSignal = 64;
constexpr uint32_t kUseScratchOnce = 1 << 4;  // of the properties

// Values that the trap handler and the CP write to queue_inactive_signal.
constexpr uint64_t kNeedsScratch = 0x1;
constexpr uint64_t kNeedsScratch32 = 0x400;  // for waves of 32 lanes
constexpr uint64_t kErrorDimensions = 0x2;
constexpr uint64_t kErrorGroupMemory = 0x4;
constexpr uint64_t kErrorCode = 0x8;
constexpr uint64_t kErrorInvalidPacket = 0x20;
constexpr uint64_t kErrorGroupSize = 0x40;
constexpr uint64_t kErrorRegisters = 0x80;
constexpr uint64_t kScratchUsedOnce = 0x200;
constexpr uint64_t kErrorIllegalInstruction = 0x40000000;
}  // namespace aql

// Exception codes of CP_BAD_OPCODE interrupts (EC_QUEUE_PACKET_* in kfd_ioctl.h).
enum class QueueException : uint32_t {
  kDispatchDimInvalid = 16,
  kDispatchGroupSegmentSizeInvalid = 17,
  kDispatchCodeInvalid = 18,
  kUnsupported = 20,
  kDispatchWorkGroupSizeInvalid = 21,
  kDispatchRegisterInvalid = 22,
  kVendorUnsupported = 23,
};

namespace ih {
constexpr uint8_t kClientSe0Sh = 0x0a;
constexpr uint8_t kClientGrbmCp = 0x14;
constexpr uint8_t kSourceEndOfPipe = 181;
constexpr uint8_t kSourceBadOpcode = 183;
constexpr uint8_t kSourceIb2OrGeneric = 178;  // what a write to CPC_INT_STATUS raises
constexpr uint8_t kSourceSqMessage = 239;
constexpr uint8_t kSdmaRingGfx = 0;
constexpr uint8_t kSdmaRingUser = 2;
}  // namespace ih

// From the first register of an SDMA engine on; the same in SDMA 4.4 and 6.0.
namespace reg {
constexpr uint32_t kSdmaStatus = sdma_4_4_2::SDMA_STATUS_REG.offset;
constexpr uint32_t kSdmaRbCntl = sdma_4_4_2::SDMA_GFX_RB_CNTL.offset;
constexpr uint32_t kSdmaRbBase = sdma_4_4_2::SDMA_GFX_RB_BASE.offset;
constexpr uint32_t kSdmaRbRptr = sdma_4_4_2::SDMA_GFX_RB_RPTR.offset;
constexpr uint32_t kSdmaRbWptr = sdma_4_4_2::SDMA_GFX_RB_WPTR.offset;
constexpr uint32_t kSdmaRbRptrAddrHi = sdma_4_4_2::SDMA_GFX_RB_RPTR_ADDR_HI.offset;
constexpr uint32_t kSdmaRbRptrAddrLo = sdma_4_4_2::SDMA_GFX_RB_RPTR_ADDR_LO.offset;
constexpr uint32_t kSdmaDoorbell = sdma_4_4_2::SDMA_GFX_DOORBELL.offset;
constexpr uint32_t kSdmaDoorbellOffset = sdma_4_4_2::SDMA_GFX_DOORBELL_OFFSET.offset;
constexpr uint32_t kSdmaGfxLast = sdma_4_4_2::SDMA_GFX_MIDCMD_CNTL.offset;
}  // namespace reg

constexpr uint32_t kDoorbellMask = 0x0ffffffc;  // the field is a byte offset into BAR 2

}  // namespace gpu
