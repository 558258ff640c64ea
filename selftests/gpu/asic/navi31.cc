// SPDX-License-Identifier: GPL-2.0
// Navi 31, as sold as Radeon RX 7900 XTX: GC 11.0.0, SDMA 6.0.0, MMHUB 3.0.0, described by its IP
// discovery table. For the driver, a PSP has loaded all firmware. Power management is a mailbox
// that accepts all messages.
#include "asic/asic.h"
#include "regs/athub_3_0_0.h"
#include "regs/gc_11_0_0.h"
#include "regs/hdp_6_0_0.h"
#include "regs/mmhub_3_0_0.h"
#include "regs/mp_13_0_0.h"
#include "regs/nbio_4_3_0.h"
#include "regs/osssys_6_0_0.h"
#include "regs/smuio_13_0_6.h"
#include "regs/vcn_4_0_0.h"

namespace gpu {
namespace {

// Version 0x93 of MES maps the driver's own queues, too. Version 14 of its interface: write
// pointers have addresses in VMID 0, debuggers may attach, and a runtime may ask for exceptions.
constexpr uint32_t kMesVersion = 14 << 12 | 0x93;

constexpr HubLayout navi_gfx_hub() {
  using r = reg::gc_11_0_0;
  constexpr uint32_t kFirst = r::GCVM_L2_CNTL.offset;
  return {.fault_control = r::GCVM_L2_PROTECTION_FAULT_CNTL.offset - kFirst,
          .fault_status = r::GCVM_L2_PROTECTION_FAULT_STATUS.offset - kFirst,
          .context_control = r::GCVM_CONTEXT0_CNTL.offset - kFirst,
          .invalidate_semaphore = r::GCVM_INVALIDATE_ENG0_SEM.offset - kFirst,
          .invalidate_request = r::GCVM_INVALIDATE_ENG0_REQ.offset - kFirst,
          .invalidate_ack = r::GCVM_INVALIDATE_ENG0_ACK.offset - kFirst,
          .page_table_base = r::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.offset - kFirst,
          .page_table_start = r::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.offset - kFirst,
          .page_table_end = r::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.offset - kFirst,
          .xgmi_control = {},
          .fb_base = r::GCMC_VM_FB_LOCATION_BASE.offset - kFirst,
          .fb_top = r::GCMC_VM_FB_LOCATION_TOP.offset - kFirst,
          .words = r::GCVM_CONTEXT15_PAGE_TABLE_END_ADDR_HI32.offset + 1 - kFirst};
}

constexpr HubLayout navi_mm_hub() {
  using r = reg::mmhub_3_0_0;
  constexpr uint32_t kFirst = r::MMVM_L2_CNTL.offset;
  return {.fault_control = r::MMVM_L2_PROTECTION_FAULT_CNTL.offset - kFirst,
          .fault_status = r::MMVM_L2_PROTECTION_FAULT_STATUS.offset - kFirst,
          .context_control = r::MMVM_CONTEXT0_CNTL.offset - kFirst,
          .invalidate_semaphore = r::MMVM_INVALIDATE_ENG0_SEM.offset - kFirst,
          .invalidate_request = r::MMVM_INVALIDATE_ENG0_REQ.offset - kFirst,
          .invalidate_ack = r::MMVM_INVALIDATE_ENG0_ACK.offset - kFirst,
          .page_table_base = r::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32.offset - kFirst,
          .page_table_start = r::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32.offset - kFirst,
          .page_table_end = r::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32.offset - kFirst,
          .xgmi_control = {},
          .fb_base = r::MMMC_VM_FB_LOCATION_BASE.offset - kFirst,
          .fb_top = r::MMMC_VM_FB_LOCATION_TOP.offset - kFirst,
          .words = r::MMMC_VM_MX_L1_TLB_CNTL.offset + 1 - kFirst};
}

// SDMA's registers are in the header of GC.
struct NaviRegisters {
  IpRegisters athub = {"ATHUB", reg::athub_3_0_0::names(), {0xc00}};
  IpRegisters gc = {"GC", reg::gc_11_0_0::names(), {0x1260, 0xa000, 0x2402c00}};
  IpRegisters hdp = {"HDP", reg::hdp_6_0_0::names(), {0xf20}};
  IpRegisters mmhub = {"MMHUB", reg::mmhub_3_0_0::names(), {0x1a000}};
  IpRegisters mp = {"MP", reg::mp_13_0_0::names(), {0x16000}};
  IpRegisters nbio = {"NBIO", reg::nbio_4_3_0::names(), {0, 0x14, 0xd20}};
  IpRegisters osssys = {"OSSSYS", reg::osssys_6_0_0::names(), {0x10a0}};
  IpRegisters smuio = {"SMUIO", reg::smuio_13_0_6::names(), {0x16800, 0x16a00}};
  IpRegisters vcn = {"VCN", reg::vcn_4_0_0::names(), {0x7800, 0x7e00}};

  std::vector<IpRegisters> all() const {
    return {gc, mmhub, osssys, athub, hdp, mp, smuio, nbio, vcn};
  }
};

// With as many bases as the driver copies.
std::vector<uint32_t> five(std::vector<uint32_t> bases) {
  bases.resize(5);
  return bases;
}

// The driver copies five bases of GC, MMHUB and OSSSYS for its scheduler.
std::vector<DiscoveredIp> navi_ips(const NaviRegisters& regs) {
  return {{hw::kGc, 0, 11, 0, 0, five(regs.gc.bases)},
          {hw::kMmhub, 0, 3, 0, 0, five(regs.mmhub.bases)},
          {hw::kAthub, 0, 3, 0, 0, regs.athub.bases},
          {hw::kOsssys, 0, 6, 0, 0, five(regs.osssys.bases)},
          {hw::kHdp, 0, 6, 0, 0, regs.hdp.bases},
          {hw::kNbif, 0, 4, 3, 0, five(regs.nbio.bases)},
          {hw::kMp0, 0, 13, 0, 0, regs.mp.bases},
          {hw::kMp1, 0, 13, 0, 0, regs.mp.bases},
          {hw::kSmuio, 0, 13, 0, 6, regs.smuio.bases},
          {hw::kSdma0, 0, 6, 0, 0, {regs.gc.bases[0]}},
          {hw::kSdma1, 0, 6, 0, 0, {regs.gc.bases[0]}},
          {hw::kVcn, 0, 4, 0, 0, five(regs.vcn.bases)},
          {hw::kDf, 0, 4, 3, 0, {0x1c000}},
          {hw::kThm, 0, 13, 0, 0, {0x16600}}};
}

std::vector<ConstantBlock> navi_constants(const NaviRegisters& regs) {
  using r = reg::gc_11_0_0;
  using mp = reg::mp_13_0_0;
  const IpRegisters& gc = regs.gc;
  return {
      // The boot loader is done, and no secure OS runs.
      {"MP0",
       {{regs.mp.at(mp::MP0_SMN_C2PMSG_33), 1u << 31}, {regs.mp.at(mp::MP0_SMN_C2PMSG_81), 0}}},
      {"SMUIO", {{regs.smuio.at(reg::smuio_13_0_6::SMUIO_MCM_CONFIG), 0}}},
      // No WGP is fused off. The driver refuses 0 in GB_ADDR_CONFIG. The CP is idle.
      {"GC configuration",
       {{gc.at(r::CC_GC_SHADER_ARRAY_CONFIG), 0},
        {gc.at(r::GC_USER_SHADER_ARRAY_CONFIG), 0},
        {gc.at(r::GB_ADDR_CONFIG), 0x545},
        {gc.at(r::CP_STAT), 0}}},
      // All firmware is loaded.
      {"RLC_RLCS_BOOTLOAD_STATUS", {{gc.at(r::RLC_RLCS_BOOTLOAD_STATUS), 1u << 31}}},
      // Reads and writes of VCN are complete.
      {"UVD_LMI_STATUS", {{regs.vcn.at(reg::vcn_4_0_0::UVD_LMI_STATUS), 0x24f}}},
      {"CP_MES_GP3_LO", {{gc.at(r::CP_MES_GP3_LO), kMesVersion}}},
  };
}

// The driver's features depend on these versions: atomics of MEC since 509, resets of single queues
// since 2410, user queues since 3450, with PFP 3190, ME 3090 and SDMA 27.
std::vector<Ucode> navi_firmware() {
  return {{"gc_11_0_0_pfp", UcodeKind::kGfxRs64, 3190},
          {"gc_11_0_0_me", UcodeKind::kGfxRs64, 3090},
          {"gc_11_0_0_mec", UcodeKind::kGfxRs64, 3450},
          {"gc_11_0_0_rlc", UcodeKind::kRlc},
          {"gc_11_0_0_mes_2", UcodeKind::kMes, kMesVersion & 0xfff},
          {"gc_11_0_0_mes1", UcodeKind::kMes, kMesVersion & 0xfff},
          {"gc_11_0_0_imu", UcodeKind::kImu},
          {"sdma_6_0_0", UcodeKind::kSdmaThreads, 27},
          {"smu_13_0_0", UcodeKind::kSmc},
          {"vcn_4_0_0", UcodeKind::kVcn}};
}

JpegRegisters navi_jpeg(const IpRegisters& vcn) {
  using r = reg::vcn_4_0_0;
  return {.segment = vcn.bases[r::UVD_JPEG_CNTL.segment],
          .first = vcn.at(r::UVD_JPEG_CNTL),
          .last = vcn.at(r::JPEG_IH_CTRL),
          .doorbell = vcn.at(r::VCN_JPEG_DB_CTRL),
          .status = vcn.at(r::UVD_JRBC_STATUS),
          .rptr = vcn.at(r::UVD_JRBC_RB_RPTR),
          .ring_base = vcn.at(r::UVD_LMI_JRBC_RB_64BIT_BAR_LOW),
          .ring_size = vcn.at(r::UVD_JRBC_RB_SIZE),
          .buffer_vmid = vcn.at(r::UVD_LMI_JRBC_IB_VMID),
          .buffer_base = vcn.at(r::UVD_LMI_JRBC_IB_64BIT_BAR_LOW),
          .buffer_size = vcn.at(r::UVD_JRBC_IB_SIZE),
          .command = vcn.at(r::UVD_JPEG_GPCOM_CMD),
          .write_base = vcn.at(r::UVD_LMI_JRBC_RB_MEM_WR_64BIT_BAR_LOW),
          .reference = vcn.at(r::UVD_JRBC_RB_REF_DATA)};
}

VcnRegisters navi_vcn(const IpRegisters& vcn) {
  using r = reg::vcn_4_0_0;
  return {.power = vcn.at(r::UVD_PGFSM_CONFIG),
          .vcpu_control = vcn.at(r::UVD_VCPU_CNTL),
          .status = vcn.at(r::UVD_STATUS),
          .enable = vcn.at(r::VCN_RB_ENABLE),
          .doorbell = vcn.at(r::VCN_RB1_DB_CTRL),
          .rptr = vcn.at(r::UVD_RB_RPTR),
          .ring_base = vcn.at(r::UVD_RB_BASE_LO),
          .ring_size = vcn.at(r::UVD_RB_SIZE)};
}

Asic make_navi31() {
  const NaviRegisters regs;
  const IpRegisters &gc = regs.gc, &mp = regs.mp;
  using r = reg::gc_11_0_0;
  return {
      .name = "navi31",
      .target = "gfx1100",
      .isa = shader::Isa::kGfx1100,
      .device_id = 0x744c,
      .revision = 0xc8,
      .class_code = 0x038000,
      .mmio_bytes = 1 << 20,
      .xccs = 1,
      .aids = 1,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 8,
      .scheduler = Scheduler::kMes,
      .cp = {.select = gc.at(r::GRBM_GFX_CNTL),
             .hqd = gc.at(r::CP_MQD_BASE_ADDR),
             .mec_control = gc.at(r::CP_MEC_RS64_CNTL),
             .queue_reset = gc.at(r::SPI_COMPUTE_QUEUE_RESET),
             .mes_control = gc.at(r::CP_MES_CNTL)},
      .rlc_safe_mode = gc.at(r::RLC_SAFE_MODE),
      .gfx_hub_layout = navi_gfx_hub(),
      .mm_hub_layout = navi_mm_hub(),
      .gfx_hub = gc.at(r::GCVM_L2_CNTL),
      .mm_hubs = {regs.mmhub.at(reg::mmhub_3_0_0::MMVM_L2_CNTL)},
      .sdma = {gc.at(r::SDMA0_DEC_START), gc.at(r::SDMA1_DEC_START)},
      .sdma_halt = {},
      .sdma_reset = r::SDMA0_QUEUE_RESET_REQ.offset - r::SDMA0_DEC_START.offset,
      .sdma_hub = Hub::kGfx,
      .sdma_mqd = {.rptr_addr_hi = 7,
                   .rptr_addr_lo = 8,
                   .ib_cntl = 9,
                   .midcmd = 31,
                   .midcmd_cntl = 42,
                   .wptr_poll_hi = 26},
      .compute_mqd = {.registers = 48,
                      .rsrc3 = r::COMPUTE_PGM_RSRC3.offset - r::COMPUTE_DISPATCH_INITIATOR.offset,
                      .reserved = 288,
                      .stack_in_area = true},
      .sdma_clients = {0x0a, 0x0a},
      .interrupts = {.bus_space = 2,
                     .gfx_fault_client = 0x0a,
                     .sdma_trap = 49,
                     .sdma_ecc = {},
                     .sdma_ring_has_engine = true},
      .smn_index = regs.nbio.at(reg::nbio_4_3_0::BIF_BX_PF0_RSMU_INDEX),
      .extended_smn = false,
      .smn = {{0x3b10024, 1}},  // MP1_FIRMWARE_FLAGS: interrupts are enabled
      .interrupt_nodes = false,
      .constants = navi_constants(regs),
      .registers = regs.all(),
      .smu = SmuMailbox{.message = mp.at(reg::mp_13_0_0::MP1_SMN_C2PMSG_66),
                        .argument = mp.at(reg::mp_13_0_0::MP1_SMN_C2PMSG_82),
                        .response = mp.at(reg::mp_13_0_0::MP1_SMN_C2PMSG_90)},
      .jpeg = navi_jpeg(regs.vcn),
      .vcn = navi_vcn(regs.vcn),
      .golden_clock = regs.smuio.at(reg::smuio_13_0_6::GOLDEN_TSC_COUNT_UPPER),
      .firmware = navi_firmware(),
      .asic_init_format = 2,
      .dpm_info_bytes = 0x900,
      .gc_table = 1,
      .ips = navi_ips(regs),
  };
}

}  // namespace

const Asic& navi31() {
  static const Asic kAsic = make_navi31();
  return kAsic;
}

}  // namespace gpu
