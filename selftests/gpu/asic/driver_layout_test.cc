// SPDX-License-Identifier: GPL-2.0
// Numbers of the model against the driver's headers: words of MQDs, registers that several versions
// of an IP block share, bases of segments. Most are checked when this file is compiled.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

// The driver's headers are C.
#define __maybe_unused
#include <mes_v11_api_def.h>
#include <v11_structs.h>
#include <v9_structs.h>

#include <aldebaran_ip_offset.h>

#include "asic/asic.h"
#include "engines/compute_registers.h"
#include "engines/mqd.h"
#include "regs/gc_11_0_0.h"
#include "regs/gc_9_4_3.h"
#include "regs/nbio_4_3_0.h"
#include "regs/nbio_7_4.h"
#include "regs/nbio_7_9_0.h"
#include "regs/osssys_4_2_0.h"
#include "regs/osssys_4_4_2.h"
#include "regs/osssys_6_0_0.h"

namespace gpu {
namespace {

#define WORD(type, field) (offsetof(type, field) / sizeof(uint32_t))
#define SAME_WORD(number, v9, v11)                                  \
  static_assert(mqd::number == WORD(v9_mqd, v9), #number " of v9"); \
  static_assert(mqd::number == WORD(v11_compute_mqd, v11), #number " of v11")

SAME_WORD(kCompute, compute_dispatch_initiator, compute_dispatch_initiator);
SAME_WORD(kUserData, compute_user_data_0, compute_user_data_0);
SAME_WORD(kBase, cp_mqd_base_addr_lo, cp_mqd_base_addr_lo);
SAME_WORD(kHqdFirst, cp_mqd_base_addr_lo, cp_mqd_base_addr_lo);
SAME_WORD(kActive, cp_hqd_active, cp_hqd_active);
SAME_WORD(kVmid, cp_hqd_vmid, cp_hqd_vmid);
SAME_WORD(kPqBase, cp_hqd_pq_base_lo, cp_hqd_pq_base_lo);
SAME_WORD(kPqRptr, cp_hqd_pq_rptr, cp_hqd_pq_rptr);
SAME_WORD(kRptrReport, cp_hqd_pq_rptr_report_addr_lo, cp_hqd_pq_rptr_report_addr_lo);
SAME_WORD(kWptrPoll, cp_hqd_pq_wptr_poll_addr_lo, cp_hqd_pq_wptr_poll_addr_lo);
SAME_WORD(kDoorbell, cp_hqd_pq_doorbell_control, cp_hqd_pq_doorbell_control);
SAME_WORD(kPqControl, cp_hqd_pq_control, cp_hqd_pq_control);
SAME_WORD(kDequeueRequest, cp_hqd_dequeue_request, cp_hqd_dequeue_request);
SAME_WORD(kSaveAreaBase, cp_hqd_ctx_save_base_addr_lo, cp_hqd_ctx_save_base_addr_lo);
SAME_WORD(kStackOffset, cp_hqd_cntl_stack_offset, cp_hqd_cntl_stack_offset);
SAME_WORD(kStackSize, cp_hqd_cntl_stack_size, cp_hqd_cntl_stack_size);
SAME_WORD(kWaveOffset, cp_hqd_wg_state_offset, cp_hqd_wg_state_offset);
SAME_WORD(kSaveAreaSize, cp_hqd_ctx_save_size, cp_hqd_ctx_save_size);
SAME_WORD(kAqlControl, cp_hqd_aql_control, cp_hqd_aql_control);
SAME_WORD(kPqWptr, cp_hqd_pq_wptr_lo, cp_hqd_pq_wptr_lo);
SAME_WORD(kPersistentState, cp_hqd_persistent_state, cp_hqd_persistent_state);
SAME_WORD(kIbBase, cp_hqd_ib_base_addr_lo, cp_hqd_ib_base_addr_lo);
SAME_WORD(kIbRptr, cp_hqd_ib_rptr, cp_hqd_ib_rptr);
SAME_WORD(kIbControl, cp_hqd_ib_control, cp_hqd_ib_control);
SAME_WORD(kHungDoorbell, queue_doorbell_id0, queue_doorbell_id0);
static_assert(mqd::kHqdFirst + mqd::kHqdWords == WORD(v9_mqd, cp_hqd_pq_wptr_hi) + 1);
static_assert(mqd::kHqdFirst + mqd::kHqdWords == WORD(v11_compute_mqd, cp_hqd_pq_wptr_hi) + 1);
static_assert(sizeof(v9_mqd) == mqd::kDwords * sizeof(uint32_t));
static_assert(sizeof(v11_compute_mqd) == mqd::kDwords * sizeof(uint32_t));
// Each of one generation.
static_assert(mqd::kLogicXcc == WORD(v9_mqd, compute_current_logic_xcc_id));
static_assert(mqd::kTargetXcc == WORD(v9_mqd, pm4_target_xcc_in_xcp));
static_assert(mqd::kStride == WORD(v9_mqd, cp_mqd_stride_size));
static_assert(mqd::kFence == WORD(v11_compute_mqd, fence_address_lo));

#define SAME_SDMA_WORD(number, field)                                            \
  static_assert(sdma_mqd::number == WORD(v9_sdma_mqd, field), #number " of v9"); \
  static_assert(sdma_mqd::number == WORD(v11_sdma_mqd, field), #number " of v11")

SAME_SDMA_WORD(kRbCntl, sdmax_rlcx_rb_cntl);
SAME_SDMA_WORD(kRbBase, sdmax_rlcx_rb_base);
SAME_SDMA_WORD(kRbRptr, sdmax_rlcx_rb_rptr);
SAME_SDMA_WORD(kRbWptr, sdmax_rlcx_rb_wptr);
SAME_SDMA_WORD(kEngine, sdma_engine_id);
SAME_SDMA_WORD(kNonce, reserved_100);
SAME_SDMA_WORD(kOldPlace, reserved_64);

TEST(DriverLayout, SdmaMqdsAreThoseOfTheGeneration) {
  for (const Asic* asic : all_asics()) {
    const SdmaMqdLayout& layout = asic->sdma_mqd;
    const bool is_v11 = asic->scheduler == Scheduler::kMes;
    EXPECT_EQ(layout.rptr_addr_hi, is_v11 ? WORD(v11_sdma_mqd, sdmax_rlcx_rb_rptr_addr_hi)
                                          : WORD(v9_sdma_mqd, sdmax_rlcx_rb_rptr_addr_hi));
    EXPECT_EQ(layout.rptr_addr_lo, is_v11 ? WORD(v11_sdma_mqd, sdmax_rlcx_rb_rptr_addr_lo)
                                          : WORD(v9_sdma_mqd, sdmax_rlcx_rb_rptr_addr_lo));
#define EXPECT_SDMA_WORD(word, field)                             \
  EXPECT_EQ(word, is_v11 ? WORD(v11_sdma_mqd, sdmax_rlcx_##field) \
                         : WORD(v9_sdma_mqd, sdmax_rlcx_##field))
    EXPECT_SDMA_WORD(layout.ib_cntl, ib_cntl);
    EXPECT_SDMA_WORD(layout.ib_cntl + sdma_mqd::kIbRptr, ib_rptr);
    EXPECT_SDMA_WORD(layout.ib_cntl + sdma_mqd::kIbOffset, ib_offset);
    EXPECT_SDMA_WORD(layout.ib_cntl + sdma_mqd::kIbBase, ib_base_lo);
    EXPECT_SDMA_WORD(layout.ib_cntl + sdma_mqd::kIbSize, ib_size);
    EXPECT_SDMA_WORD(layout.ib_cntl + sdma_mqd::kSkipCntl, skip_cntl);
    EXPECT_SDMA_WORD(layout.midcmd, midcmd_data0);
    EXPECT_SDMA_WORD(layout.midcmd_cntl, midcmd_cntl);
    if (is_v11) {
      EXPECT_EQ(layout.wptr_poll_hi, WORD(v11_sdma_mqd, sdmax_rlcx_rb_wptr_poll_addr_hi));
    }
    // The model's own words are reserved ones, 64 in a row.
    const unsigned reserved = asic->compute_mqd.reserved;
    const bool is_reserved = is_v11 ? reserved == WORD(v11_compute_mqd, reserved_288) &&
                                          reserved + 63 == WORD(v11_compute_mqd, reserved_351)
                                    : reserved == WORD(v9_mqd, reserved_256) &&
                                          reserved + 63 == WORD(v9_mqd, reserved_319);
    EXPECT_TRUE(is_reserved) << asic->name;
  }
}

TEST(DriverLayout, ComputeMqdsHaveTheRegistersInOrder) {
  EXPECT_EQ(mqd::kCompute + kComputeMqd9.registers - 1, WORD(v9_mqd, compute_relaunch));
  EXPECT_EQ(kComputeMqd9.rsrc3, reg::gc_9_4_2::COMPUTE_PGM_RSRC3.offset -
                                    reg::gc_9_4_2::COMPUTE_DISPATCH_INITIATOR.offset);
  const ComputeMqdLayout& v11 = navi31().compute_mqd;
  EXPECT_EQ(mqd::kCompute + v11.registers - 1, WORD(v11_compute_mqd, compute_dispatch_interleave));
  EXPECT_EQ(mqd::kCompute + v11.rsrc3, WORD(v11_compute_mqd, compute_pgm_rsrc3));
}

// ADD_QUEUE, as MES reads it.
TEST(DriverLayout, MesFindsTheTrapHandlerOfAQueue) {
  using Frame = MESAPI__ADD_QUEUE;
  static_assert(WORD(Frame, trap_handler_addr) == 33 && WORD(Frame, tma_addr) == 41);
  Frame frame = {};
  frame.exclusively_scheduled = 1;
  EXPECT_EQ(frame.max_dwords_in_api[36], 1u << 14);
}

// Registers that the model takes from the header of one version and uses for others, too.
#define SAME_FROM(first, name)                                                \
  static_assert(reg::gc_11_0_0::name.offset - reg::gc_11_0_0::first.offset == \
                    reg::gc_9_4_2::name.offset - reg::gc_9_4_2::first.offset, \
                #name " of GC 11.0.0");                                       \
  static_assert(reg::gc_9_4_3::name == reg::gc_9_4_2::name, #name " of GC 9.4.3")
#define SAME_COMPUTE(name) SAME_FROM(COMPUTE_DISPATCH_INITIATOR, name)

SAME_COMPUTE(COMPUTE_DIM_X);
SAME_COMPUTE(COMPUTE_START_X);
SAME_COMPUTE(COMPUTE_NUM_THREAD_X);
SAME_COMPUTE(COMPUTE_PGM_LO);
SAME_COMPUTE(COMPUTE_DISPATCH_SCRATCH_BASE_LO);
SAME_COMPUTE(COMPUTE_PGM_RSRC1);
SAME_COMPUTE(COMPUTE_PGM_RSRC2);
SAME_COMPUTE(COMPUTE_STATIC_THREAD_MGMT_SE0);
SAME_COMPUTE(COMPUTE_TMPRING_SIZE);
SAME_COMPUTE(COMPUTE_STATIC_THREAD_MGMT_SE2);
SAME_COMPUTE(COMPUTE_RESTART_X);
SAME_COMPUTE(COMPUTE_USER_DATA_0);
SAME_COMPUTE(COMPUTE_USER_DATA_15);
SAME_COMPUTE(COMPUTE_RESTART_Z);
// The words of an MQD are in the order of the registers.
SAME_FROM(CP_MQD_BASE_ADDR, CP_HQD_ACTIVE);
SAME_FROM(CP_MQD_BASE_ADDR, CP_HQD_DEQUEUE_REQUEST);
SAME_FROM(CP_MQD_BASE_ADDR, CP_HQD_PQ_DOORBELL_CONTROL);
SAME_FROM(CP_MQD_BASE_ADDR, CP_HQD_PQ_WPTR_HI);
static_assert(reg::gc_9_4_2::CP_HQD_PQ_WPTR_HI.offset + 1 ==
              reg::gc_9_4_2::CP_MQD_BASE_ADDR.offset + mqd::kHqdWords);

#define SAME_GC(name)                                                                \
  static_assert(reg::gc_11_0_0::name == reg::gc_9_4_2::name, #name " of GC 11.0.0"); \
  static_assert(reg::gc_9_4_3::name == reg::gc_9_4_2::name, #name " of GC 9.4.3")
SAME_GC(RLC_GPU_CLOCK_COUNT_LSB);
SAME_GC(RLC_GPU_CLOCK_COUNT_MSB);
SAME_GC(RLC_CAPTURE_GPU_CLOCK_COUNT);
static_assert(reg::gc_9_4_2::RLC_SAFE_MODE == reg::gc_9_4_3::RLC_SAFE_MODE);

// SDMA 6.0 is in the header of GC 11.0.
#define SAME_SDMA(number, name) \
  static_assert(reg::number == reg::gc_11_0_0::SDMA0_##name.offset, #name " of SDMA 6.0")
SAME_SDMA(kSdmaStatus, STATUS_REG);
SAME_SDMA(kSdmaRbCntl, QUEUE0_RB_CNTL);
SAME_SDMA(kSdmaRbBase, QUEUE0_RB_BASE);
SAME_SDMA(kSdmaRbRptr, QUEUE0_RB_RPTR);
SAME_SDMA(kSdmaRbWptr, QUEUE0_RB_WPTR);
SAME_SDMA(kSdmaRbRptrAddrHi, QUEUE0_RB_RPTR_ADDR_HI);
SAME_SDMA(kSdmaRbRptrAddrLo, QUEUE0_RB_RPTR_ADDR_LO);
SAME_SDMA(kSdmaDoorbell, QUEUE0_DOORBELL);
SAME_SDMA(kSdmaDoorbellOffset, QUEUE0_DOORBELL_OFFSET);
SAME_SDMA(kSdmaGfxLast, QUEUE0_MIDCMD_CNTL);

#define SAME_OSSSYS(name)                                            \
  static_assert(reg::osssys_4_4_2::name == reg::osssys_4_2_0::name); \
  static_assert(reg::osssys_6_0_0::name == reg::osssys_4_2_0::name)
SAME_OSSSYS(IH_VMID_0_LUT);
SAME_OSSSYS(IH_RB_CNTL);
SAME_OSSSYS(IH_RB_BASE);
SAME_OSSSYS(IH_RB_WPTR);
SAME_OSSSYS(IH_DOORBELL_RPTR);
SAME_OSSSYS(IH_DOORBELL_RETRY_CAM);

// Newer headers of NBIO have a prefix.
#define SAME_NBIO(name, prefix)                                           \
  static_assert(reg::nbio_4_3_0::prefix##_##name == reg::nbio_7_4::name); \
  static_assert(reg::nbio_7_9_0::prefix##_##name == reg::nbio_7_4::name)
SAME_NBIO(BIOS_SCRATCH_0, BIF_BX0);
SAME_NBIO(MM_INDEX, BIF_BX_PF0);
SAME_NBIO(RCC_CONFIG_MEMSIZE, RCC_DEV0_EPF0);
SAME_NBIO(RCC_IOV_FUNC_IDENTIFIER, RCC_DEV0_EPF0);
SAME_NBIO(GPU_HDP_FLUSH_REQ, BIF_BX_PF0);
SAME_NBIO(GPU_HDP_FLUSH_DONE, BIF_BX_PF0);

const IpRegisters& ip_of(const Asic& asic, std::string_view name) {
  for (const IpRegisters& one : asic.registers)
    if (one.name == name || one.name == std::string(name) + "0") return one;
  throw std::runtime_error("no block " + std::string(name));
}

TEST(DriverLayout, EveryChipHasTheBasesThatItsBlocksShare) {
  for (const Asic* asic : all_asics()) {
    EXPECT_EQ(ip_of(*asic, "GC").bases[1], reg::kGcSegment1) << asic->name;
    EXPECT_EQ(ip_of(*asic, "OSSSYS").bases[0], reg::kOsssysSegment0) << asic->name;
    for (size_t i = 0; i < reg::kNbioSegments.size(); ++i)
      EXPECT_EQ(ip_of(*asic, "NBIO").bases[i], reg::kNbioSegments[i]) << asic->name;
    // COMPUTE_DISPATCH_INITIATOR has one address in all.
    const bool is_11 = asic->scheduler == Scheduler::kMes;
    EXPECT_EQ(ip_of(*asic, "GC")
                  .at(is_11 ? reg::gc_11_0_0::COMPUTE_DISPATCH_INITIATOR
                            : reg::gc_9_4_2::COMPUTE_DISPATCH_INITIATOR),
              ComputeRegisters::kFirst)
        << asic->name;
  }
}

// The others have an IP discovery table, which is the model's own.
TEST(DriverLayout, TheBasesOfAnMi210AreTheDrivers) {
  const std::pair<const char*, const IP_BASE*> blocks[] = {
      {"ATHUB", &ATHUB_BASE},   {"GC", &GC_BASE},      {"HDP", &HDP_BASE},
      {"MMHUB", &MMHUB_BASE},   {"MP", &MP0_BASE},     {"NBIO", &NBIO_BASE},
      {"OSSSYS", &OSSSYS_BASE}, {"SDMA", &SDMA0_BASE}, {"SMUIO", &SMUIO_BASE}};
  for (const auto& [name, base] : blocks) {
    const IpRegisters& ip = ip_of(mi210(), name);
    for (size_t i = 0; i < ip.bases.size(); ++i)
      EXPECT_EQ(ip.bases[i], base->instance[0].segment[i]) << name << " segment " << i;
  }
}

}  // namespace
}  // namespace gpu
