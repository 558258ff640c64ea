// SPDX-License-Identifier: GPL-2.0
// MI300X: GC 9.4.3, SDMA 4.4.2, MMHUB 1.8, described by its IP discovery table. The bases are those
// of the model: a base of GC ends in 0x2000 or 0xa000, because packets carry the low 16 bits, and
// all other registers lie between these windows.
#include "asic/asic.h"

namespace gpu {
namespace {

constexpr unsigned kSdmaPerAid = 4;

constexpr uint8_t u8(unsigned value) { return static_cast<uint8_t>(value); }
constexpr uint32_t mmhub_base(unsigned aid) { return aid * kInstanceStride + 0x4000; }
constexpr uint32_t sdma_base(unsigned engine) {
  return engine / kSdmaPerAid * kInstanceStride + 0x8000 + engine % kSdmaPerAid * 0x400;
}

std::vector<DiscoveredIp> make_ips(unsigned xccs, unsigned aids) {
  std::vector<DiscoveredIp> ips = {
      {hw::kOsssys, 0, 4, 4, 2, {0x10a0}}, {hw::kHdp, 0, 4, 4, 2, {0xf20}},
      {hw::kAthub, 0, 1, 8, 0, {0xc20}},   {hw::kMp0, 0, 13, 0, 6, {0x16000}},
      {hw::kMp1, 0, 13, 0, 6, {0x16000}},  {hw::kSmuio, 0, 13, 0, 3, {0x16800, 0x16a00}},
      {hw::kDf, 0, 4, 6, 2, {0x1c000}}};
  for (unsigned xcc = 0; xcc < xccs; ++xcc) {
    const uint32_t at = xcc * kInstanceStride;
    ips.push_back({hw::kGc, u8(xcc), 9, 4, 3, {at + 0x2000, at + 0xa000}});
  }
  for (unsigned aid = 0; aid < aids; ++aid) {
    const uint32_t at = aid * kInstanceStride;
    ips.push_back({hw::kMmhub, u8(aid), 1, 8, 0, {mmhub_base(aid)}});
    ips.push_back({hw::kVcn, u8(aid), 4, 0, 3, {at + 0x7800}});
    // The driver uses segments 0, 1, 2, 5 and 8.
    ips.push_back({hw::kNbif,
                   u8(aid),
                   7,
                   9,
                   0,
                   {at, at + 0x14, at + 0xd20, at, at, at, at, at, at + 0x8000}});
  }
  for (unsigned engine = 0; engine < aids * kSdmaPerAid; ++engine)
    ips.push_back({hw::kSdma0, u8(engine), 4, 4, 2, {sdma_base(engine)}});
  return ips;
}

Asic make(std::string_view name, unsigned xccs, unsigned aids, unsigned memory_partitions = 1) {
  Asic asic = {
      .name = name,
      .target = "gfx942",
      .device_id = 0x74a1,
      .revision = 0,
      .class_code = 0x120000,
      .mmio_bytes = 2 << 20,
      .xccs = xccs,
      .aids = aids,
      .memory_partitions = memory_partitions,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 4,
      .gfx_hub_layout = kHub943,
      .mm_hub_layout = kHub943,
      .gfx_hub = 0x2820,
      .mm_hubs = {},
      .sdma = {},
      .sdma_halt = 0x02,
      .sdma_clients = {0x08, 0x09, 0x01, 0x04},
      .extended_smn = true,
      .interrupt_nodes = true,
      .constants =
          {
              // C2PMSG_33: the boot loader is done; _81: no secure OS runs.
              {"MP0", {{0x16061, 1u << 31}, {0x16091, 0}}},
              {"SMUIO", {{0x16a23, 1 << 2}}},      // MCM_CONFIG: die 0, an OAM package
              {"RCC_STRAP0", {{0xd36, 1 << 24}}},  // revision 1: the driver refuses 0
              {"ATHUB", {{0xc2b, ~0u}}},           // PASID updates complete at once
              {"GC configuration", {{0x226f, 0}, {0x2270, 0}, {0x263e, 0x2a114042}}, true},
              {"RLC SERDES", {{0xec61, 0}, {0xec62, 0}}, true},
          },
      .register_name = register_number,
      .firmware = {{"gc_9_4_3_mec", UcodeKind::kMec, 72},
                   {"gc_9_4_3_rlc", UcodeKind::kRlc},
                   {"sdma_4_4_2", UcodeKind::kSdma}},
      .asic_init_format = 2,
      .ips = make_ips(xccs, aids),
  };
  for (unsigned aid = 0; aid < aids; ++aid) asic.mm_hubs.push_back(mmhub_base(aid) + 0xb60);
  for (unsigned engine = 0; engine < aids * kSdmaPerAid; ++engine)
    asic.sdma.push_back(sdma_base(engine));
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
