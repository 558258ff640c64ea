// SPDX-License-Identifier: GPL-2.0
#include "engines/mqd_kept.h"

#include <array>
#include <cstddef>

#include "base/result.h"
#include "engines/mqd.h"

namespace gpu {
namespace {

struct Words {
  unsigned first, last;
  uint32_t bits = ~0u;
};

// Bits that a driver may drop, although preemption keeps them.
struct Dropped {
  unsigned first, last;
  uint32_t bits;
  const char* why;
};

// Words of which the driver sets bits, or in which the model has state of its own. The numbers are
// those of v9_structs.h and v11_structs.h.
constexpr Words kUsedCompute[] = {
    {0, 35},                 // the header, COMPUTE_*
    {mqd::kUserData, 80},    // COMPUTE_USER_DATA
    {128, 131},              // CP_MQD_BASE_ADDR, ACTIVE, VMID
    {132, 134},              // PERSISTENT_STATE, priorities
    {135, 135, 0x7fffffff},  // QUANTUM without QUANTUM_ACTIVE
    {136, 143},              // PQ_BASE up to PQ_DOORBELL_CONTROL
    {145, 145, ~0x80c0u},    // PQ_CONTROL without PQ_EMPTY and the carries of the pointers
    {146, 150},              // the place in an indirect buffer, IQ_TIMER
    {160, 160, 0x20004000},  // HQ_STATUS0: the DISPATCH_PTR, PCIe atomics
    {162, 162},              // CP_MQD_CONTROL
    {165, 167},              // EOP_BASE_ADDR, EOP_CONTROL
    {171, 177},              // the save area and the control stack
    {181, 183},              // AQL_CONTROL, PQ_WPTR
};
constexpr Words kUsedCompute9[] = {
    {39, 42},    // CUs of SE4..7, or the logical XCC and its share of work-groups
    {225, 226},  // PM4_TARGET_XCC, stride
    {256, 319},  // reserved: the model's own
};
constexpr Words kUsedCompute11[] = {
    {37, 41},    // COMPUTE_USER_ACCUM, COMPUTE_PGM_RSRC3
    {44, 48},    // CUs of SE4..7, COMPUTE_DISPATCH_INTERLEAVE
    {288, 351},  // reserved: the model's own
    {446, 447},  // fence_address
};
constexpr Words kUsedSdma9[] = {
    {0, 11},   // the ring, its pointers, IB_CNTL, IB_RPTR
    {13, 16},  // IB_BASE, IB_SIZE, SKIP_CNTL
    {22, 22},
    {27, 29},
    {32, 33},
    {40, 41},
    {sdma_mqd::kOldPlace, sdma_mqd::kOldPlace},
    {sdma_mqd::kNonce, sdma_mqd::kNonce},
    {126, 127},
};
constexpr Words kUsedSdma11[] = {
    {0, 10},
    {12, 15},
    {19, 19},
    {22, 22},
    {25, 27},
    {31, 32},
    {41, 42},
    {sdma_mqd::kOldPlace, sdma_mqd::kOldPlace},
    {sdma_mqd::kNonce, sdma_mqd::kNonce},
    {126, 127},
};

constexpr Dropped kDroppedCompute[] = {
    {106, 106, ~0u, "disable_queue: a request to the firmware; a restored queue is enabled"},
    {120, 127, ~0u, "buffers of GDS, of an older save area, of CU masks: of the driver's memory"},
    {135, 135, 1u << 31, "QUANTUM_ACTIVE: the quantum begins when the queue is mapped"},
    {144, 144, ~0u, "reserved in the middle of registers of the ring"},
    {145, 145, 0x80c0, "PQ_EMPTY, WPTR_CARRY, RPTR_CARRY: follow from the pointers"},
    {151, 151, ~0u, "IQ_RPTR: queues of processes have no interrupt queue"},
    {152, 152, ~0u, "DEQUEUE_REQUEST: ends when the queue is unmapped"},
    {153, 153, ~0u, "DMA_OFFLOAD: a choice of the driver"},
    {155, 155, ~0u, "MSG_TYPE: of the scheduler's message that unmapped the queue"},
    {160, 161, ~0u, "HQ_STATUS0, HQ_CONTROL0: of the descriptor that the queue was mapped to"},
    {163, 164, ~0u, "HQ_STATUS1, HQ_CONTROL1: of the descriptor that the queue was mapped to"},
    {192, 224, ~0u, "a packet of the timer of an interrupt queue"},
    {228, 235, ~0u, "SET_RESOURCES: of the scheduler's queue"},
    {240, 255, ~0u, "doorbells of hung queues: of the scheduler's queue"},
};
constexpr Dropped kDroppedCompute11[] = {
    {256, 264, ~0u, "buffers that the firmware writes with the driver's privileges"},
};
constexpr Dropped kDroppedSdma9[] = {
    {18, 18, ~0u, "DOORBELL: the scheduler enables it when it maps the queue"},
    {23, 24, ~0u, "CSA_ADDR: memory of the driver"},
    {26, 26, ~0u, "PREEMPT: a request that ends when the queue is unmapped"},
    {30, 31, ~0u, "RB_AQL_CNTL, MINOR_PTR_UPDATE: the driver makes no AQL rings for SDMA"},
};
constexpr Dropped kDroppedSdma11[] = {
    {17, 17, ~0u, "DOORBELL: the scheduler enables it when it maps the queue"},
    {20, 21, ~0u, "CSA_ADDR: memory of the driver"},
    {24, 24, ~0u, "PREEMPT: a request that ends when the queue is unmapped"},
    {28, 30, ~0u, "RB_AQL_CNTL, MINOR_PTR_UPDATE, RB_PREEMPT: no AQL rings, no request is left"},
    {43, 44, ~0u, "F32_DBG: registers for debugging the firmware"},
};

struct Layout {
  size_t words = 0;
  std::array<uint32_t, mqd::kDwords> kept = {};      // bits that have a nonce
  std::array<uint32_t, mqd::kDwords> compared = {};  // those that may not be dropped

  constexpr Layout(size_t count, std::span<const Words> used, std::span<const Words> also_used,
                   std::span<const Dropped> dropped, std::span<const Dropped> also_dropped)
      : words(count) {
    for (size_t i = 0; i < words; ++i) kept[i] = ~0u;
    for (const auto list : {used, also_used})
      for (const Words& span : list)
        for (unsigned i = span.first; i <= span.last; ++i) kept[i] &= ~span.bits;
    compared = kept;
    for (const auto list : {dropped, also_dropped})
      for (const Dropped& span : list)
        for (unsigned i = span.first; i <= span.last; ++i) compared[i] &= ~span.bits;
  }
};

const Layout& layout_of(MqdKind kind) {
  static constexpr Layout kCompute9(mqd::kDwords, kUsedCompute, kUsedCompute9, kDroppedCompute, {});
  static constexpr Layout kCompute11(mqd::kDwords, kUsedCompute, kUsedCompute11, kDroppedCompute,
                                     kDroppedCompute11);
  static constexpr Layout kSdma9(sdma_mqd::kDwords, kUsedSdma9, {}, kDroppedSdma9, {});
  static constexpr Layout kSdma11(sdma_mqd::kDwords, kUsedSdma11, {}, kDroppedSdma11, {});
  switch (kind) {
    case MqdKind::kCompute9:
      return kCompute9;
    case MqdKind::kCompute11:
      return kCompute11;
    case MqdKind::kSdma9:
      return kSdma9;
    case MqdKind::kSdma11:
      break;
  }
  return kSdma11;
}

constexpr uint32_t mixed(uint32_t nonce, size_t word) {
  uint32_t value = nonce ^ static_cast<uint32_t>(word) * 0x9e3779b9;
  value = (value ^ value >> 16) * 0x85ebca6b;
  value = (value ^ value >> 13) * 0xc2b2ae35;
  return value ^ value >> 16;
}

}  // namespace

uint32_t nonce_of(std::span<const uint32_t> state) {
  uint32_t nonce = 0x811c9dc5;
  for (const uint32_t word : state) nonce = mixed(nonce ^ word, 1);
  return nonce | 1;
}

KeptBits::KeptBits(MqdKind kind, unsigned at) : kind_(kind), at_(at) {}

void KeptBits::write(std::span<uint32_t> mqd, uint32_t nonce) const {
  const Layout& layout = layout_of(kind_);
  for (size_t i = 0; i < layout.words; ++i)
    mqd[i] = (mqd[i] & ~layout.kept[i]) | (mixed(nonce, i) & layout.kept[i]);
  mqd[at_] = nonce;
}

std::optional<std::string> KeptBits::lost(std::span<const uint32_t> mqd) const {
  const uint32_t nonce = mqd[at_];
  if (!nonce) return std::nullopt;
  const Layout& layout = layout_of(kind_);
  for (size_t i = 0; i < layout.words; ++i) {
    const uint32_t wrong = (mqd[i] ^ mixed(nonce, i)) & layout.compared[i];
    if (wrong)
      return amdgpu_criu::formatted("saved MQD: bits {:#x} of word {} are lost, which is {:#x}",
                                    wrong, i, mqd[i]);
  }
  return std::nullopt;
}

}  // namespace gpu
