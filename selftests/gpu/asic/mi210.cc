// SPDX-License-Identifier: GPL-2.0
// Aldebaran, as sold as MI210: GC 9.4.2, SDMA 4.4.0, MMHUB 1.7. The driver knows its IP blocks.
#include "asic/gfx9.h"
#include "regs/athub_1_0.h"
#include "regs/gc_9_4_2.h"
#include "regs/hdp_4_0.h"
#include "regs/mmhub_1_7.h"
#include "regs/mp_13_0_2.h"
#include "regs/nbio_7_4.h"
#include "regs/osssys_4_2_0.h"
#include "regs/sdma_4_4_0.h"
#include "regs/smuio_13_0_2.h"

namespace gpu {
namespace {

Asic make_mi210() {
  // Bases as in aldebaran_ip_offset.h.
  const IpRegisters athub = {"ATHUB", reg::athub_1_0::names(), {0xc20}};
  const IpRegisters gc = {"GC", reg::gc_9_4_2::names(), {0x2000, 0xa000}};
  const IpRegisters hdp = {"HDP", reg::hdp_4_0::names(), {0xf20}};
  const IpRegisters mmhub = {"MMHUB", reg::mmhub_1_7::names(), {0x1a000}};
  const IpRegisters mp = {"MP", reg::mp_13_0_2::names(), {0x16000}};
  const IpRegisters nbio = {"NBIO", reg::nbio_7_4::names(), {0, 0x14, 0xd20}};
  const IpRegisters osssys = {"OSSSYS", reg::osssys_4_2_0::names(), {0x10a0}};
  const IpRegisters sdma = {"SDMA", reg::sdma_4_4_0::names(), {0x1260}};
  const IpRegisters smuio = {"SMUIO", reg::smuio_13_0_2::names(), {0x16800, 0x16a00}};
  using r = reg::gc_9_4_2;
  using s = reg::sdma_4_4_0;
  return {
      .name = "mi210",
      .target = "gfx90a",
      .isa = shader::Isa::kGfx90a,
      .device_id = 0x740f,
      .revision = 2,
      .class_code = 0x038000,
      .mmio_bytes = 512 << 10,
      .xccs = 1,
      .aids = 1,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 8,
      .sram_ecc = true,
      .cp = gfx9_cp<r>(gc),
      .unit_registers = gfx9_units<r>(gc),
      .rlc_safe_mode = gc.at(r::RLC_SAFE_MODE),
      .gfx_hub_layout = gfx9_hub<r>(),
      .mm_hub_layout = gfx9_hub<r>(),
      .gfx_hub = gc.at(r::VM_L2_CNTL),
      .mm_hubs = {mmhub.at(reg::mmhub_1_7::VM_L2_CNTL)},
      .sdma = {sdma.at(s::SDMA0_UCODE_ADDR), sdma.at(s::SDMA1_UCODE_ADDR),
               sdma.at(s::SDMA2_UCODE_ADDR), sdma.at(s::SDMA3_UCODE_ADDR),
               sdma.at(s::SDMA4_UCODE_ADDR)},
      .sdma_halt = s::SDMA0_F32_CNTL.offset,
      .sdma_clients = {0x08, 0x09, 0x01, 0x04, 0x05},
      .smn_index = nbio.at(reg::nbio_7_4::PCIE_INDEX2),
      .extended_smn = false,
      .interrupt_nodes = false,
      .constants =
          {
              // The boot loader is done, and no secure OS runs.
              {"MP0",
               {{mp.at(reg::mp_13_0_2::MP0_SMN_C2PMSG_33), 1u << 31},
                {mp.at(reg::mp_13_0_2::MP0_SMN_C2PMSG_81), 0}}},
              // Die 0, on PCIe.
              {"SMUIO",
               {{smuio.at(reg::smuio_13_0_2::SMUIO_MCM_CONFIG), 0},
                {smuio.at(reg::smuio_13_0_2::IP_DISCOVERY_VERSION), 0}}},
              // Every update completes at once.
              {"ATHUB", {{athub.at(reg::athub_1_0::ATC_VMID_PASID_MAPPING_UPDATE_STATUS), ~0u}}},
              gfx9_configuration<r>(gc),
              gfx9_serdes<r>(gc),
          },
      .registers = {gc, mmhub, sdma, osssys, athub, hdp, mp, smuio, nbio},
      .firmware = {{"aldebaran_mec", UcodeKind::kMec, 72},
                   {"aldebaran_rlc", UcodeKind::kRlc},
                   {"aldebaran_sdma", UcodeKind::kSdma}},
      .asic_init_format = 1,
  };
}

Asic make_uneven(std::string_view name, std::vector<uint32_t> fused) {
  Asic asic = make_mi210();
  asic.name = name;
  asic.shader_engines = 2;
  asic.units_per_array = 4;
  asic.fused_units = std::move(fused);
  return asic;
}

}  // namespace

const Asic& mi210() {
  static const Asic kAsic = make_mi210();
  return kAsic;
}

const Asic& mi210_4_3() {
  static const Asic kAsic = make_uneven("mi210-4-3", {0, 1 << 3});
  return kAsic;
}

const Asic& mi210_3_4() {
  static const Asic kAsic = make_uneven("mi210-3-4", {1 << 3, 0});
  return kAsic;
}

const Asic& mi210_wide() {
  static const Asic kAsic = [] {
    Asic asic = make_mi210();
    asic.name = "mi210-wide";
    asic.units_per_array = 16;
    return asic;
  }();
  return kAsic;
}

}  // namespace gpu
