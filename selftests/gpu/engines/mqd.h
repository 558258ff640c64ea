// SPDX-License-Identifier: GPL-2.0
// Memory queue descriptors, from which a queue is started and to which it is saved: doubleword
// indices that are the same in v9_mqd, v11_compute_mqd and their SDMA counterparts.
// CP_MQD_BASE_ADDR..CP_HQD_PQ_WPTR_HI are the same words as the registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engines/packets.h"

namespace gpu {

namespace mqd {
constexpr unsigned kDwords = 512;
constexpr unsigned kHqdFirst = 128;  // the word of CP_MQD_BASE_ADDR
constexpr unsigned kHqdWords = 56;   // up to CP_HQD_PQ_WPTR_HI
constexpr unsigned kCompute = 1;     // COMPUTE_DISPATCH_INITIATOR
constexpr unsigned kLogicXcc = 39;   // COMPUTE_CURRENT_LOGIC_XCC_ID
constexpr unsigned kUserData = 65;   // COMPUTE_USER_DATA_0
constexpr unsigned kBase = 128;
constexpr unsigned kActive = 130;
constexpr unsigned kVmid = 131;
constexpr unsigned kPersistentState = 132;
constexpr unsigned kPqBase = 136;
constexpr unsigned kPqRptr = 138;
constexpr unsigned kRptrReport = 139;
constexpr unsigned kWptrPoll = 141;
constexpr unsigned kDoorbell = 143;
constexpr unsigned kPqControl = 145;
constexpr unsigned kIbBase = 146;  // CP_HQD_IB_BASE_ADDR
constexpr unsigned kIbRptr = 148;
constexpr unsigned kIbControl = 149;
constexpr unsigned kDequeueRequest = 152;
constexpr unsigned kSaveAreaBase = 171;  // CP_HQD_CTX_SAVE_BASE_ADDR
constexpr unsigned kStackOffset = 174;   // CP_HQD_CNTL_STACK_OFFSET, in bytes
constexpr unsigned kStackSize = 175;
constexpr unsigned kWaveOffset = 176;  // CP_HQD_WG_STATE_OFFSET
constexpr unsigned kSaveAreaSize = 177;
constexpr unsigned kAqlControl = 181;
constexpr unsigned kPqWptr = 182;
constexpr unsigned kFence = 446;         // of a user queue: fence_address of v11_compute_mqd
constexpr unsigned kTargetXcc = 225;     // PM4_TARGET_XCC_IN_XCP
constexpr unsigned kStride = 226;        // bytes between the copies for the XCCs of a partition
constexpr unsigned kHungDoorbell = 240;  // of the HIQ: QUEUE_DOORBELL_ID0
// From ComputeMqdLayout::reserved on, words that the generation reserves, zeroed when a queue is
// created and saved in a checkpoint: what of the model's place has no word of its own (SavedPlace),
// a nonce (KeptBits), COMPUTE_PGM_RSRC3, and the counters of the queue's GWS.
constexpr unsigned kPlace = 0;
constexpr unsigned kNonce = kPlace + 31;
constexpr unsigned kRsrc3 = kPlace + 32;
constexpr unsigned kGws = kRsrc3 + 1;
}  // namespace mqd

// CP_HQD_PERSISTENT_STATE.
namespace persistent {
constexpr uint32_t kRestoreActive = 1u << 28;  // a preemption came before all waves were relaunched
constexpr uint32_t kRelaunchWaves = 1u << 29;  // they are in the control stack
constexpr uint32_t kDispActive = 1u << 31;     // a dispatch restarts at COMPUTE_RESTART
constexpr uint32_t kState = kRestoreActive | kRelaunchWaves | kDispActive;
}  // namespace persistent

// CP_HQD_IB_CONTROL
namespace ib_control {
constexpr uint32_t kSize = 0xfffff;  // doublewords
constexpr uint32_t kProcessing = 1u << 31;
}  // namespace ib_control

namespace sdma_mqd {
constexpr unsigned kDwords = 128;
constexpr unsigned kRbCntl = 0;
constexpr unsigned kRbBase = 1;
constexpr unsigned kRbRptr = 3;
constexpr unsigned kRbWptr = 5;
// The places of the following addresses depend on the generation (SdmaMqdLayout).
constexpr unsigned kEngine = 126;
// Reserved words. Images that are older than the nonce (of KeptBits) have SavedPlace::kMagic in the
// other one.
constexpr unsigned kNonce = 100, kOldPlace = 64;

// From SDMAx_RLCx_IB_CNTL on.
enum Ib : unsigned { kIbCntl, kIbRptr, kIbOffset, kIbBase, kIbBaseHi, kIbSize, kSkipCntl };
constexpr uint32_t kIbEnable = 1;
constexpr uint32_t kDataValid = 1;  // of MIDCMD_CNTL
}  // namespace sdma_mqd

// The position of a stream of packets: all state of a queue that is not in guest memory.
struct SavedPlace {
  static constexpr uint32_t kMagic = 0x504c4331;
  static constexpr unsigned kMaxIbs = 2;

  struct Ib {
    uint64_t base = 0;
    uint32_t size = 0;  // doublewords
    uint32_t next = 0;
  };

  uint64_t ring_next = 0;  // doublewords, or packets of an AQL queue; never wrapped
  uint64_t progress = 0;   // inside of the current packet; its unit is the packet's
  uint32_t skip = 0;       // doublewords left to skip after a condition that was false
  uint32_t depth = 0;
  uint64_t started = 0;  // when the current AQL packet began
  // State of the current AQL packet: its buffer was called, it was refused, more scratch was
  // requested, or the runtime must take back scratch of one dispatch.
  enum Stage : uint32_t {
    kNew = 0,
    kCalled = 1,
    kRefused = 2,
    kNeedsScratch = 3,
    kUsedScratch = 4
  };
  uint32_t stage = kNew;
  std::array<Ib, kMaxIbs> ibs = {};

  static constexpr unsigned kWords = 14;
  using Words = std::array<uint32_t, kWords>;

  // All but the first buffer, which CP_HQD_IB_* describe.
  Words pack() const;
  // False if the words were not written by pack(), or are invalid. Keeps the first buffer: without
  // one there is no second.
  bool unpack(const Words& words);
};

}  // namespace gpu
