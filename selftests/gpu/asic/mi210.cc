// SPDX-License-Identifier: GPL-2.0
// Aldebaran, as sold as MI210: GC 9.4.2, SDMA 4.4.0, MMHUB 1.7. The driver knows its IP blocks.
#include "asic/asic.h"

namespace gpu {

const Asic& mi210() {
  static const Asic kAsic = {
      .name = "mi210",
      .target = "gfx90a",
      .saves_waves = true,
      .device_id = 0x740f,
      .revision = 2,
      .class_code = 0x038000,
      .mmio_bytes = 512 << 10,
      .xccs = 1,
      .aids = 1,
      .shader_engines = 1,
      .arrays_per_engine = 1,
      .units_per_array = 8,
      .gfx_hub_layout = kHub942,
      .mm_hub_layout = kHub942,
      .gfx_hub = 0x2840,
      .mm_hubs = {0x1ab80},
      .sdma = {0x1260, 0x1860, 0x1e000, 0x1e400, 0x1e800},
      .sdma_halt = 0x2a,
      .sdma_clients = {0x08, 0x09, 0x01, 0x04, 0x05},
      .extended_smn = false,
      .interrupt_nodes = false,
      .constants =
          {
              // C2PMSG_33: the boot loader is done; _81: no secure OS runs.
              {"MP0", {{0x16061, 1u << 31}, {0x16091, 0}}},
              {"SMUIO", {{0x16824, 0}, {0x16a00, 0}}},  // MCM_CONFIG: die 0, on PCIe
                                                        // ATC_VMID_PASID_MAPPING_UPDATE_STATUS:
                                                        // every update completes at once.
              {"ATHUB", {{0xc2b, ~0u}}},
              // CU arrays: none fused off. GB_ADDR_CONFIG: the VBIOS's value, which the driver's
              // own bits do not change. RLC_SERDES_*_BUSY: idle.
              {"GC configuration", {{0x226f, 0}, {0x2270, 0}, {0x263e, 0x2a114042}}, true},
              {"RLC SERDES", {{0xec61, 0}, {0xec62, 0}}, true},
          },
      .register_name = register_name,
      .firmware = {{"aldebaran_mec", UcodeKind::kMec, 72},
                   {"aldebaran_rlc", UcodeKind::kRlc},
                   {"aldebaran_sdma", UcodeKind::kSdma}},
      .asic_init_format = 1,
  };
  return kAsic;
}

}  // namespace gpu
