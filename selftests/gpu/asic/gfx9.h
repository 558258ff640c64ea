// SPDX-License-Identifier: GPL-2.0
// What chips of GFX9 have in common. Gc: the registers of their version of GC.
#pragma once

#include "asic/asic.h"

namespace gpu {

// MMHUB has the same layout.
template <typename Gc>
constexpr HubLayout gfx9_hub() {
  constexpr uint32_t kFirst = Gc::VM_L2_CNTL.offset;
  return {.fault_control = Gc::VM_L2_PROTECTION_FAULT_CNTL.offset - kFirst,
          .fault_status = Gc::VM_L2_PROTECTION_FAULT_STATUS.offset - kFirst,
          .context_control = Gc::VM_CONTEXT0_CNTL.offset - kFirst,
          .invalidate_semaphore = Gc::VM_INVALIDATE_ENG0_SEM.offset - kFirst,
          .invalidate_request = Gc::VM_INVALIDATE_ENG0_REQ.offset - kFirst,
          .invalidate_ack = Gc::VM_INVALIDATE_ENG0_ACK.offset - kFirst,
          .page_table_base = Gc::VM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.offset - kFirst,
          .page_table_start = Gc::VM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.offset - kFirst,
          .page_table_end = Gc::VM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.offset - kFirst,
          .xgmi_control = Gc::MC_VM_XGMI_LFB_CNTL.offset - kFirst,
          .fb_base = Gc::MC_VM_FB_LOCATION_BASE.offset - kFirst,
          .fb_top = Gc::MC_VM_FB_LOCATION_TOP.offset - kFirst,
          .words = Gc::MC_VM_MX_L1_TLB_CNTL.offset + 1 - kFirst};
}

template <typename Gc>
CpRegisters gfx9_cp(const IpRegisters& gc) {
  return {.select = gc.at(Gc::GRBM_GFX_CNTL),
          .hqd = gc.at(Gc::CP_MQD_BASE_ADDR),
          .mec_control = gc.at(Gc::CP_MEC_CNTL),
          .queue_reset = gc.at(Gc::SPI_COMPUTE_QUEUE_RESET)};
}

template <typename Gc>
UnitRegisters gfx9_units(const IpRegisters& gc) {
  return {.select = gc.at(Gc::GRBM_GFX_INDEX),
          .fused = gc.at(Gc::CC_GC_SHADER_ARRAY_CONFIG),
          .user = gc.at(Gc::GC_USER_SHADER_ARRAY_CONFIG)};
}

// GB_ADDR_CONFIG has the VBIOS's value, which the driver's own bits do not
// change.
template <typename Gc>
ConstantBlock gfx9_configuration(const IpRegisters& gc) {
  return {"GC configuration", {{gc.at(Gc::GB_ADDR_CONFIG), 0x2a114042}}, true};
}

template <typename Gc>
ConstantBlock gfx9_serdes(const IpRegisters& gc) {
  return {"RLC SERDES",
          {{gc.at(Gc::RLC_SERDES_CU_MASTER_BUSY), 0}, {gc.at(Gc::RLC_SERDES_NONCU_MASTER_BUSY), 0}},
          true};
}

}  // namespace gpu
