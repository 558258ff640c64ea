// SPDX-License-Identifier: GPL-2.0
// COMPUTE_*: the registers that SET_SH_REG sets for the dispatches of a queue. Every queue has its
// own, which its MQD keeps over a preemption: v9_mqd has the registers up to COMPUTE_RELAUNCH from
// word 1 on, and the user data from word 65 on. It has no word for COMPUTE_PGM_RSRC3.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engines/mqd.h"
#include "engines/packets.h"

namespace gpu {

struct ComputeRegisters {
  static constexpr uint32_t kFirst = 0x2e00;  // COMPUTE_DISPATCH_INITIATOR
  enum Offset : unsigned {
    kInitiator = 0x00,
    kDimX = 0x01,
    kStartX = 0x04,
    kNumThreadX = 0x07,
    kPgmLo = 0x0c,
    kRsrc1 = 0x12,
    kRsrc2 = 0x13,
    kUnitsSe0 = 0x16,  // COMPUTE_STATIC_THREAD_MGMT_SE0, SE1
    kTmpringSize = 0x18,
    kUnitsSe2 = 0x19,  // SE2, SE3
    kRestartX = 0x1b,
    kRelaunch = 0x22,
    kRsrc3 = 0x2d,
    kUserData0 = 0x40,
    kEnd = 0x50,
  };
  static constexpr unsigned kUserData = kEnd - kUserData0;

  std::array<uint32_t, kEnd> words = {};

  // False: it is another register.
  bool write(uint32_t dword, uint32_t value) {
    if (dword < kFirst || dword >= kFirst + kEnd) return false;
    words[dword - kFirst] = value;
    return true;
  }
  std::array<uint32_t, 3> three(Offset first) const {
    return {words[first], words[first + 1u], words[first + 2u]};
  }

  // From and to the words of an MQD.
  void load(std::span<const uint32_t, mqd::kDwords> mqd, unsigned reserved) {
    for (unsigned i = 0; i <= kRelaunch; ++i) words[i] = mqd[mqd::kCompute + i];
    for (unsigned i = 0; i < kUserData; ++i) words[kUserData0 + i] = mqd[mqd::kUserData + i];
    words[kRsrc3] = mqd[reserved + mqd::kRsrc3];
  }
};

}  // namespace gpu
