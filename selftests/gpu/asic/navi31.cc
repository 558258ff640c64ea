// SPDX-License-Identifier: GPL-2.0
// Navi 31, as sold as Radeon RX 7900 XTX: GC 11.0.0, SDMA 6.0.0, MMHUB 3.0.0, described by its IP
// discovery table. For the driver, a PSP has loaded all firmware. Power management is a mailbox
// that accepts all messages.
#include "asic/asic.h"

namespace gpu {
namespace {

constexpr uint32_t kNaviGc = 0x1260;
constexpr uint32_t kNaviMmhub = 0x1a000;

// The driver copies five bases of GC, MMHUB and OSSSYS for its scheduler.
std::vector<DiscoveredIp> navi_ips() {
  return {{hw::kGc, 0, 11, 0, 0, {kNaviGc, 0xa000, 0x2402c00, 0, 0}},
          {hw::kMmhub, 0, 3, 0, 0, {kNaviMmhub, 0, 0, 0, 0}},
          {hw::kAthub, 0, 3, 0, 0, {0xc00}},
          {hw::kOsssys, 0, 6, 0, 0, {0x10a0, 0, 0, 0, 0}},
          {hw::kHdp, 0, 6, 0, 0, {0xf20}},
          {hw::kNbif, 0, 4, 3, 0, {0, 0x14, 0xd20, 0, 0}},
          {hw::kMp0, 0, 13, 0, 0, {0x16000}},
          {hw::kMp1, 0, 13, 0, 0, {0x16000}},
          {hw::kSmuio, 0, 13, 0, 6, {0x16800, 0x16a00}},
          {hw::kSdma0, 0, 6, 0, 0, {kNaviGc}},
          {hw::kSdma1, 0, 6, 0, 0, {kNaviGc}},
          {hw::kVcn, 0, 4, 0, 0, {0x7800}},
          {hw::kDf, 0, 4, 3, 0, {0x1c000}},
          {hw::kThm, 0, 13, 0, 0, {0x16600}}};
}

std::vector<ConstantBlock> navi_constants() {
  return {
      // C2PMSG_33: the boot loader is done; _81: no secure OS runs.
      {"MP0", {{0x16061, 1u << 31}, {0x16091, 0}}},
      {"SMUIO", {{0x16823, 0}}},  // MCM_CONFIG
      // CC_ and GC_USER_SHADER_ARRAY_CONFIG: no WGP is fused off. GB_ADDR_CONFIG: the driver
      // refuses 0. CP_STAT: idle.
      {"GC configuration", {{0x226f, 0}, {0xfb90, 0}, {0x263e, 0x545}, {0x21a0, 0}}},
      {"RLC_RLCS_BOOTLOAD_STATUS", {{0xee82, 1u << 31}}},  // all firmware is loaded
      // Version 0x93 of MES: it maps the driver's own queues, too. Version 2 of its interface:
      // write pointers have addresses in VMID 0.
      {"CP_MES_GP3_LO", {{0xc849, 0x2093}}},
  };
}

// The driver's features depend on these versions: atomics of MEC since 509, resets of single queues
// since 2410, user queues since 3450, with PFP 3190, ME 3090 and SDMA 27.
std::vector<Ucode> navi_firmware() {
  return {{"gc_11_0_0_pfp", UcodeKind::kGfxRs64, 3190},
          {"gc_11_0_0_me", UcodeKind::kGfxRs64, 3090},
          {"gc_11_0_0_mec", UcodeKind::kGfxRs64, 3450},
          {"gc_11_0_0_rlc", UcodeKind::kRlc},
          {"gc_11_0_0_mes_2", UcodeKind::kMes, 0x93},
          {"gc_11_0_0_mes1", UcodeKind::kMes, 0x93},
          {"gc_11_0_0_imu", UcodeKind::kImu},
          {"sdma_6_0_0", UcodeKind::kSdmaThreads, 27},
          {"smu_13_0_0", UcodeKind::kSmc}};
}

Asic make_navi31() {
  return {
      .name = "navi31",
      .target = "gfx1100",
      .device_id = 0x744c,
      .revision = 0xc8,
      .class_code = 0x038000,
      .mmio_bytes = 1 << 20,
      .xccs = 1,
      .aids = 1,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 8,
      .kernels = false,
      .scheduler = Scheduler::kMes,
      .cp = {.select = 0xa900,
             .hqd = 0x3209,
             .mec_control = 0xc904,  // CP_MEC_RS64_CNTL
             .queue_reset = 0x31d3,
             .mes_control = 0xc807},
      .rlc_safe_mode = 0xa980,
      .gfx_hub_layout = kHubGc11,
      .mm_hub_layout = kHubMm30,
      .gfx_hub = kNaviGc + 0x15bc,
      .mm_hubs = {kNaviMmhub + 0x700},
      .sdma = {kNaviGc, kNaviGc + 0x600},
      .sdma_halt = {},
      .sdma_hub = Hub::kGfx,
      .sdma_mqd = {.rptr_addr_hi = 7, .rptr_addr_lo = 8, .wptr_poll_hi = 26},
      .mqd_reserved = 288,
      .sdma_clients = {0x0a, 0x0a},
      .interrupts = {.bus_space = 2,
                     .gfx_fault_client = 0x0a,
                     .sdma_trap = 49,
                     .sdma_ecc = {},
                     .sdma_ring_has_engine = true},
      .smn_index = 0x14,  // RSMU_INDEX
      .extended_smn = false,
      .smn = {{0x3b10024, 1}},  // MP1_FIRMWARE_FLAGS: interrupts are enabled
      .interrupt_nodes = false,
      .constants = navi_constants(),
      .register_name = register_number,
      // C2PMSG_66, _82 and _90 of MP1.
      .smu = SmuMailbox{.message = 0x16282, .argument = 0x16292, .response = 0x1629a},
      .golden_clock = 0x16a2d,
      .firmware = navi_firmware(),
      .asic_init_format = 2,
      .dpm_info_bytes = 0x900,
      .gc_table = 1,
      .ips = navi_ips(),
  };
}

}  // namespace

const Asic& navi31() {
  static const Asic kAsic = make_navi31();
  return kAsic;
}

}  // namespace gpu
