// SPDX-License-Identifier: GPL-2.0
// COMPUTE_*: the registers that SET_SH_REG sets for the dispatches of a queue. Every queue has its
// own, which its MQD keeps over a preemption: the first of them from word 1 on, and the user data
// from word 65 on. The order is that of GFX9; driver_layout_test.cc checks which registers GFX11
// has at the same places. COMPUTE_PGM_RSRC3 has another one (ComputeMqdLayout), and v9_mqd no word
// for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "asic/asic.h"
#include "engines/mqd.h"
#include "engines/packets.h"
#include "regs/gc_9_4_2.h"

namespace gpu {

struct ComputeRegisters {
  using r = reg::gc_9_4_2;
  static constexpr uint32_t kFirstOffset = r::COMPUTE_DISPATCH_INITIATOR.offset;
  static constexpr uint32_t kFirst = 0x2000 + kFirstOffset;  // of XCC 0; the same in all chips
  enum Offset : unsigned {
    kInitiator = 0,
    kDimX = r::COMPUTE_DIM_X.offset - kFirstOffset,
    kStartX = r::COMPUTE_START_X.offset - kFirstOffset,
    kNumThreadX = r::COMPUTE_NUM_THREAD_X.offset - kFirstOffset,
    kPgmLo = r::COMPUTE_PGM_LO.offset - kFirstOffset,
    kScratchBase = r::COMPUTE_DISPATCH_SCRATCH_BASE_LO.offset - kFirstOffset,  // address >> 8
    kRsrc1 = r::COMPUTE_PGM_RSRC1.offset - kFirstOffset,
    kRsrc2 = r::COMPUTE_PGM_RSRC2.offset - kFirstOffset,
    kUnitsSe0 = r::COMPUTE_STATIC_THREAD_MGMT_SE0.offset - kFirstOffset,  // SE1 follows
    kTmpringSize = r::COMPUTE_TMPRING_SIZE.offset - kFirstOffset,
    kUnitsSe2 = r::COMPUTE_STATIC_THREAD_MGMT_SE2.offset - kFirstOffset,  // SE3 follows
    kRestartX = r::COMPUTE_RESTART_X.offset - kFirstOffset,
    kUserData0 = r::COMPUTE_USER_DATA_0.offset - kFirstOffset,
    kEnd = r::COMPUTE_USER_DATA_15.offset + 1 - kFirstOffset,
  };
  static constexpr unsigned kUserData = kEnd - kUserData0;

  std::array<uint32_t, kEnd> words = {};

  // False: it is another register.
  bool write(uint32_t dword, uint32_t value) {
    if (dword < kFirst || dword >= kFirst + kEnd) return false;
    words[dword - kFirst] = value;
    return true;
  }
  // Each XCC has its own.
  void take_units(const ComputeRegisters& from) {
    for (const unsigned at : {kUnitsSe0, kUnitsSe2})
      std::copy_n(from.words.begin() + at, 2, words.begin() + at);
  }
  std::array<uint32_t, 3> three(Offset first) const {
    return {words[first], words[first + 1u], words[first + 2u]};
  }

  // From and to the words of an MQD.
  void load(std::span<const uint32_t, mqd::kDwords> mqd, const ComputeMqdLayout& layout) {
    std::copy_n(mqd.begin() + mqd::kCompute, layout.registers, words.begin());
    std::copy_n(mqd.begin() + mqd::kUserData, kUserData, words.begin() + kUserData0);
    if (layout.rsrc3 >= layout.registers) words[layout.rsrc3] = mqd[layout.reserved + mqd::kRsrc3];
  }
  void save(std::span<uint32_t, mqd::kDwords> mqd, const ComputeMqdLayout& layout) const {
    std::copy_n(words.begin(), layout.registers, mqd.begin() + mqd::kCompute);
    std::copy_n(words.begin() + kUserData0, kUserData, mqd.begin() + mqd::kUserData);
    if (layout.rsrc3 >= layout.registers) mqd[layout.reserved + mqd::kRsrc3] = words[layout.rsrc3];
  }
};

}  // namespace gpu
