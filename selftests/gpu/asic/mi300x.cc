// SPDX-License-Identifier: GPL-2.0
// MI300X: GC 9.4.3, SDMA 4.4.2, MMHUB 1.8, described by its IP discovery table. The bases are those
// of the model: a base of GC ends in 0x2000 or 0xa000, because packets carry the low 16 bits, and
// all other registers lie between these windows.
#include "asic/gfx9.h"
#include "regs/athub_1_8_0.h"
#include "regs/gc_9_4_3.h"
#include "regs/hdp_4_4_2.h"
#include "regs/mmhub_1_8_0.h"
#include "regs/mp_13_0_6.h"
#include "regs/nbio_7_9_0.h"
#include "regs/osssys_4_4_2.h"
#include "regs/sdma_4_4_2.h"
#include "regs/smuio_13_0_3.h"

namespace gpu {
namespace {

constexpr unsigned kSdmaPerAid = 4;

constexpr uint8_t u8(unsigned value) { return static_cast<uint8_t>(value); }

IpRegisters gc_of(unsigned xcc) {
  const uint32_t at = xcc * kInstanceStride;
  return {amdgpu_criu::formatted("GC{}", xcc), reg::gc_9_4_3::names(), {at + 0x2000, at + 0xa000}};
}

IpRegisters mmhub_of(unsigned aid) {
  return {amdgpu_criu::formatted("MMHUB{}", aid),
          reg::mmhub_1_8_0::names(),
          {aid * kInstanceStride + 0x4000}};
}

IpRegisters sdma_of(unsigned engine) {
  return {amdgpu_criu::formatted("SDMA{}", engine),
          reg::sdma_4_4_2::names(),
          {engine / kSdmaPerAid * kInstanceStride + 0x8000 + engine % kSdmaPerAid * 0x400}};
}

// The driver uses segments 0, 1, 2, 5 and 8.
IpRegisters nbio_of(unsigned aid) {
  const uint32_t at = aid * kInstanceStride;
  return {amdgpu_criu::formatted("NBIO{}", aid),
          reg::nbio_7_9_0::names(),
          {at, at + 0x14, at + 0xd20, at, at, at, at, at, at + 0x8000}};
}

struct SharedRegisters {
  IpRegisters athub = {"ATHUB", reg::athub_1_8_0::names(), {0xc20}};
  IpRegisters hdp = {"HDP", reg::hdp_4_4_2::names(), {0xf20}};
  IpRegisters mp = {"MP", reg::mp_13_0_6::names(), {0x16000}};
  IpRegisters osssys = {"OSSSYS", reg::osssys_4_4_2::names(), {0x10a0}};
  IpRegisters smuio = {"SMUIO", reg::smuio_13_0_3::names(), {0x16800, 0x16a00}};
};

std::vector<IpRegisters> all_registers(const SharedRegisters& shared, unsigned xccs,
                                       unsigned aids) {
  std::vector<IpRegisters> all = {shared.osssys, shared.athub, shared.hdp, shared.mp, shared.smuio};
  for (unsigned xcc = 0; xcc < xccs; ++xcc) all.push_back(gc_of(xcc));
  for (unsigned aid = 0; aid < aids; ++aid) all.push_back(mmhub_of(aid));
  for (unsigned engine = 0; engine < aids * kSdmaPerAid; ++engine) all.push_back(sdma_of(engine));
  for (unsigned aid = 0; aid < aids; ++aid) all.push_back(nbio_of(aid));
  return all;
}

std::vector<DiscoveredIp> make_ips(const SharedRegisters& shared, unsigned xccs, unsigned aids) {
  std::vector<DiscoveredIp> ips = {{hw::kOsssys, 0, 4, 4, 2, shared.osssys.bases},
                                   {hw::kHdp, 0, 4, 4, 2, shared.hdp.bases},
                                   {hw::kAthub, 0, 1, 8, 0, shared.athub.bases},
                                   {hw::kMp0, 0, 13, 0, 6, shared.mp.bases},
                                   {hw::kMp1, 0, 13, 0, 6, shared.mp.bases},
                                   {hw::kSmuio, 0, 13, 0, 3, shared.smuio.bases},
                                   {hw::kDf, 0, 4, 6, 2, {0x1c000}}};
  for (unsigned xcc = 0; xcc < xccs; ++xcc)
    ips.push_back({hw::kGc, u8(xcc), 9, 4, 3, gc_of(xcc).bases});
  for (unsigned aid = 0; aid < aids; ++aid) {
    ips.push_back({hw::kMmhub, u8(aid), 1, 8, 0, mmhub_of(aid).bases});
    ips.push_back({hw::kVcn, u8(aid), 4, 0, 3, {aid * kInstanceStride + 0x7800}});
    ips.push_back({hw::kNbif, u8(aid), 7, 9, 0, nbio_of(aid).bases});
  }
  for (unsigned engine = 0; engine < aids * kSdmaPerAid; ++engine)
    ips.push_back({hw::kSdma0, u8(engine), 4, 4, 2, sdma_of(engine).bases});
  return ips;
}

std::vector<ConstantBlock> mi300x_constants(const SharedRegisters& shared) {
  using mp = reg::mp_13_0_6;
  const IpRegisters gc = gc_of(0);
  return {
      // The boot loader is done, and no secure OS runs.
      {"MP0",
       {{shared.mp.at(mp::MP0_SMN_C2PMSG_33), 1u << 31}, {shared.mp.at(mp::MP0_SMN_C2PMSG_81), 0}}},
      // Die 0, an OAM package.
      {"SMUIO", {{shared.smuio.at(reg::smuio_13_0_3::SMUIO_MCM_CONFIG), 1 << 2}}},
      // Revision 1: the driver refuses 0.
      {"RCC_STRAP0", {{nbio_of(0).at(reg::nbio_7_9_0::RCC_STRAP0_RCC_DEV0_EPF0_STRAP0), 1 << 24}}},
      // PASID updates complete at once.
      {"ATHUB", {{shared.athub.at(reg::athub_1_8_0::ATC_VMID_PASID_MAPPING_UPDATE_STATUS), ~0u}}},
      gfx9_configuration<reg::gc_9_4_3>(gc),
      gfx9_serdes<reg::gc_9_4_3>(gc),
  };
}

Asic make(std::string_view name, unsigned xccs, unsigned aids, unsigned memory_partitions = 1) {
  const SharedRegisters shared;
  const IpRegisters gc = gc_of(0);
  using r = reg::gc_9_4_3;
  Asic asic = {
      .name = name,
      .target = "gfx942",
      .isa = shader::Isa::kGfx942,
      .device_id = 0x74a1,
      .revision = 0,
      .class_code = 0x120000,
      .mmio_bytes = 2 << 20,
      .hdp_flush = 0x1a000 / 4,
      .xccs = xccs,
      .aids = aids,
      .memory_partitions = memory_partitions,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 4,
      .sram_ecc = true,
      .cp = gfx9_cp<r>(gc),
      .unit_registers = gfx9_units<r>(gc),
      .rlc_safe_mode = gc.at(r::RLC_SAFE_MODE),
      .gfx_hub_layout = gfx9_hub<r>(),
      .mm_hub_layout = gfx9_hub<r>(),
      .gfx_hub = gc.at(r::VM_L2_CNTL),
      .mm_hubs = {},
      .sdma = {},
      .sdma_halt = reg::sdma_4_4_2::SDMA_F32_CNTL.offset,
      .sdma_selected = {{.status = reg::sdma_4_4_2::SDMA_RLC0_CONTEXT_STATUS.offset,
                         .doorbell = reg::sdma_4_4_2::SDMA_RLC0_DOORBELL_OFFSET.offset}},
      .sdma_clients = {0x08, 0x09, 0x01, 0x04},
      .smn_index = nbio_of(0).at(reg::nbio_7_9_0::BIF_BX0_PCIE_INDEX2),
      .extended_smn = true,
      .interrupt_nodes = true,
      .constants = mi300x_constants(shared),
      .registers = all_registers(shared, xccs, aids),
      .firmware = {{"gc_9_4_3_mec", UcodeKind::kMec, 72},
                   {"gc_9_4_3_rlc", UcodeKind::kRlc},
                   {"sdma_4_4_2", UcodeKind::kSdma}},
      .asic_init_format = 2,
      .ips = make_ips(shared, xccs, aids),
  };
  for (unsigned aid = 0; aid < aids; ++aid)
    asic.mm_hubs.push_back(mmhub_of(aid).at(reg::mmhub_1_8_0::VM_L2_CNTL));
  for (unsigned engine = 0; engine < aids * kSdmaPerAid; ++engine)
    asic.sdma.push_back(sdma_of(engine).bases[0]);
  return asic;
}

}  // namespace

const Asic& mi300x() {
  static const Asic kAsic = make("mi300x", 8, 4);
  return kAsic;
}

const Asic& mi300x_small() {
  static const Asic kAsic = make("mi300x-small", 2, 1);
  return kAsic;
}

const Asic& mi300x_halves() {
  static const Asic kAsic = make("mi300x-halves", 2, 1, 2);
  return kAsic;
}

}  // namespace gpu
