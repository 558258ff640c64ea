// SPDX-License-Identifier: GPL-2.0
#include "regs/names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/result.h"

namespace gpu {
namespace {

struct Name {
  uint32_t dword;
  std::string_view text;
};

// The registers that amdgpu accesses at bind on GC 9.4.2, sorted; the families are named below.
constexpr auto kNames = std::to_array<Name>({
    {0x00000, "NBIO_MM_INDEX"},
    {0x00001, "NBIO_MM_DATA"},
    {0x00006, "NBIO_MM_INDEX_HI"},
    {0x0000e, "NBIO_PCIE_INDEX2"},
    {0x0000f, "NBIO_PCIE_DATA2"},
    {0x00050, "NBIO_BIOS_SCRATCH_4"},
    {0x00053, "NBIO_BIOS_SCRATCH_7"},
    {0x00de0, "NBIO_RCC_DOORBELL_APER_EN"},
    {0x00de3, "NBIO_RCC_CONFIG_MEMSIZE"},
    {0x00de5, "NBIO_RCC_IOV_FUNC_IDENTIFIER"},
    {0x00e11, "NBIO_INTERRUPT_CNTL"},
    {0x00e12, "NBIO_INTERRUPT_CNTL2"},
    {0x00e13, "NBIO_DOORBELL_SELFRING_GPA_APER_BASE_HIGH"},
    {0x00e14, "NBIO_DOORBELL_SELFRING_GPA_APER_BASE_LOW"},
    {0x00e15, "NBIO_DOORBELL_SELFRING_GPA_APER_CNTL"},
    {0x00e2b, "NBIO_BACO_CNTL"},
    {0x00e4d, "NBIO_REMAP_HDP_MEM_FLUSH_CNTL"},
    {0x00e4e, "NBIO_REMAP_HDP_REG_FLUSH_CNTL"},
    {0x00ef0, "NBIO_BIF_SDMA0_DOORBELL_RANGE"},
    {0x00ef1, "NBIO_BIF_SDMA1_DOORBELL_RANGE"},
    {0x00ef2, "NBIO_BIF_IH_DOORBELL_RANGE"},
    {0x00f60, "HDP_NONSURFACE_BASE"},
    {0x00f62, "HDP_NONSURFACE_BASE_HI"},
    {0x00ff3, "HDP_MISC_CNTL"},
    {0x00ff4, "HDP_MEM_POWER_LS"},
    {0x01120, "OSSSYS_IH_RB_CNTL"},
    {0x01121, "OSSSYS_IH_RB_BASE"},
    {0x01122, "OSSSYS_IH_RB_BASE_HI"},
    {0x01123, "OSSSYS_IH_RB_RPTR"},
    {0x01124, "OSSSYS_IH_RB_WPTR"},
    {0x01125, "OSSSYS_IH_RB_WPTR_ADDR_HI"},
    {0x01126, "OSSSYS_IH_RB_WPTR_ADDR_LO"},
    {0x01127, "OSSSYS_IH_DOORBELL_RPTR"},
    {0x01128, "OSSSYS_IH_DOORBELL_RETRY_CAM"},
    {0x0112c, "OSSSYS_IH_RB_CNTL_RING1"},
    {0x0112d, "OSSSYS_IH_RB_BASE_RING1"},
    {0x0112e, "OSSSYS_IH_RB_BASE_HI_RING1"},
    {0x0112f, "OSSSYS_IH_RB_RPTR_RING1"},
    {0x01130, "OSSSYS_IH_RB_WPTR_RING1"},
    {0x01133, "OSSSYS_IH_DOORBELL_RPTR_RING1"},
    {0x01138, "OSSSYS_IH_RB_CNTL_RING2"},
    {0x01139, "OSSSYS_IH_RB_BASE_RING2"},
    {0x0113a, "OSSSYS_IH_RB_BASE_HI_RING2"},
    {0x0113b, "OSSSYS_IH_RB_RPTR_RING2"},
    {0x0113c, "OSSSYS_IH_RB_WPTR_RING2"},
    {0x0113f, "OSSSYS_IH_DOORBELL_RPTR_RING2"},
    {0x0117b, "OSSSYS_IH_CLK_CTRL"},
    {0x0122d, "OSSSYS_IH_MMHUB_CNTL"},
    {0x02000, "GC_GRBM_CNTL"},
    {0x02022, "GC_GRBM_GFX_CNTL"},
    {0x0208d, "GC_CP_MEC_CNTL"},
    {0x0226f, "GC_CC_GC_SHADER_ARRAY_CONFIG"},
    {0x02270, "GC_USER_SHADER_ARRAY_CONFIG"},
    {0x0230a, "GC_SH_MEM_BASES"},
    {0x0230b, "GC_SQ_TIMEOUT_CONFIG"},
    {0x0230d, "GC_SH_MEM_CONFIG"},
    {0x02542, "GC_TA_CNTL_AUX"},
    {0x0260d, "GC_DB_DEBUG2"},
    {0x0263e, "GC_GB_ADDR_CONFIG"},
    {0x02840, "GC_VM_L2_CNTL"},
    {0x02841, "GC_VM_L2_CNTL2"},
    {0x02842, "GC_VM_L2_CNTL3"},
    {0x02847, "GC_VM_L2_PROTECTION_FAULT_CNTL"},
    {0x02848, "GC_VM_L2_PROTECTION_FAULT_CNTL2"},
    {0x0284e, "GC_VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32"},
    {0x0284f, "GC_VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32"},
    {0x02851, "GC_VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32"},
    {0x02852, "GC_VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32"},
    {0x02853, "GC_VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32"},
    {0x02854, "GC_VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32"},
    {0x02855, "GC_VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32"},
    {0x02856, "GC_VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32"},
    {0x02857, "GC_VM_L2_CNTL4"},
    {0x0296b, "GC_MC_VM_FB_OFFSET"},
    {0x0296c, "GC_MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB"},
    {0x0296d, "GC_MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB"},
    {0x02978, "GC_MC_VM_XGMI_LFB_CNTL"},
    {0x02979, "GC_MC_VM_XGMI_LFB_SIZE"},
    {0x02982, "GC_MC_VM_AGP_TOP"},
    {0x02983, "GC_MC_VM_AGP_BOT"},
    {0x02984, "GC_MC_VM_AGP_BASE"},
    {0x02985, "GC_MC_VM_SYSTEM_APERTURE_LOW_ADDR"},
    {0x02986, "GC_MC_VM_SYSTEM_APERTURE_HIGH_ADDR"},
    {0x02987, "GC_MC_VM_MX_L1_TLB_CNTL"},
    {0x02b03, "GC_TCP_CHAN_STEER_LO"},
    {0x02b04, "GC_TCP_CHAN_STEER_HI"},
    {0x02b05, "GC_TCP_ADDR_CONFIG"},
    {0x02b09, "GC_TCP_CHAN_STEER_2"},
    {0x02b0a, "GC_TCP_CHAN_STEER_3"},
    {0x02b0b, "GC_TCP_CHAN_STEER_4"},
    {0x02b0c, "GC_TCP_CHAN_STEER_5"},
    {0x02b5d, "GC_TCI_CNTL_3"},
    {0x0305c, "GC_CP_MEC_DOORBELL_RANGE_LOWER"},
    {0x0305d, "GC_CP_MEC_DOORBELL_RANGE_UPPER"},
    {0x0306a, "GC_CP_INT_CNTL_RING0"},
    {0x03079, "GC_CP_MEM_SLP_CNTL"},
    {0x03083, "GC_CP_PQ_WPTR_POLL_CNTL"},
    {0x03085, "GC_CP_ME1_PIPE0_INT_CNTL"},
    {0x03086, "GC_CP_ME1_PIPE1_INT_CNTL"},
    {0x03087, "GC_CP_ME1_PIPE2_INT_CNTL"},
    {0x03088, "GC_CP_ME1_PIPE3_INT_CNTL"},
    {0x030b0, "GC_CP_IQ_WAIT_TIME2"},
    {0x030b4, "GC_CPC_INT_CNTL"},
    {0x030b8, "GC_CP_PQ_STATUS"},
    {0x030b9, "GC_CP_CPC_IC_BASE_LO"},
    {0x030ba, "GC_CP_CPC_IC_BASE_HI"},
    {0x030bb, "GC_CP_CPC_IC_BASE_CNTL"},
    {0x031d3, "GC_SPI_GDBG_TRAP_MASK"},
    {0x031d8, "GC_SPI_GDBG_TRAP_DATA0"},
    {0x031d9, "GC_SPI_GDBG_TRAP_DATA1"},
    {0x03245, "GC_CP_MQD_BASE_ADDR"},
    {0x03246, "GC_CP_MQD_BASE_ADDR_HI"},
    {0x03247, "GC_CP_HQD_ACTIVE"},
    {0x03248, "GC_CP_HQD_VMID"},
    {0x03249, "GC_CP_HQD_PERSISTENT_STATE"},
    {0x0324c, "GC_CP_HQD_QUANTUM"},
    {0x0324d, "GC_CP_HQD_PQ_BASE"},
    {0x0324e, "GC_CP_HQD_PQ_BASE_HI"},
    {0x0324f, "GC_CP_HQD_PQ_RPTR"},
    {0x03250, "GC_CP_HQD_PQ_RPTR_REPORT_ADDR"},
    {0x03251, "GC_CP_HQD_PQ_RPTR_REPORT_ADDR_HI"},
    {0x03252, "GC_CP_HQD_PQ_WPTR_POLL_ADDR"},
    {0x03253, "GC_CP_HQD_PQ_WPTR_POLL_ADDR_HI"},
    {0x03254, "GC_CP_HQD_PQ_DOORBELL_CONTROL"},
    {0x03256, "GC_CP_HQD_PQ_CONTROL"},
    {0x0325a, "GC_CP_HQD_IB_CONTROL"},
    {0x03267, "GC_CP_MQD_CONTROL"},
    {0x0326a, "GC_CP_HQD_EOP_BASE_ADDR"},
    {0x0326b, "GC_CP_HQD_EOP_BASE_ADDR_HI"},
    {0x0326c, "GC_CP_HQD_EOP_CONTROL"},
    {0x0327b, "GC_CP_HQD_PQ_WPTR_LO"},
    {0x0327c, "GC_CP_HQD_PQ_WPTR_HI"},
    {0x03292, "GC_DIDT_WEIGHT_1"},
    {0x0329b, "GC_CAC_IND_DATA"},
    {0x0329c, "GC_SE_CAC_CGTT_CLK_CTRL"},
    {0x0329d, "GC_SE_CAC_IND_INDEX"},
    {0x032b5, "GC_TCP_UTCL1_CNTL1"},
    {0x0c040, "GC_SCRATCH_REG0"},
    {0x0c200, "GC_GRBM_GFX_INDEX"},
    {0x0ec00, "GC_RLC_CNTL"},
    {0x0ec05, "GC_RLC_SAFE_MODE"},
    {0x0ec06, "GC_RLC_MEM_SLP_CNTL"},
    {0x0ec48, "GC_RLC_CGTT_MGCG_OVERRIDE"},
    {0x0ec49, "GC_RLC_CGCG_CGLS_CTRL"},
    {0x0ec61, "GC_RLC_SERDES_CU_MASTER_BUSY"},
    {0x0ec62, "GC_RLC_SERDES_NONCU_MASTER_BUSY"},
    {0x0ec71, "GC_RLC_SPM_MC_CNTL"},
    {0x0eca2, "GC_RLC_CSIB_ADDR_LO"},
    {0x0eca3, "GC_RLC_CSIB_ADDR_HI"},
    {0x0eca4, "GC_RLC_CSIB_LENGTH"},
    {0x0ecaa, "GC_RLC_CP_SCHEDULERS"},
    {0x0f81a, "GC_CP_HYP_MEC1_UCODE_ADDR"},
    {0x0f81b, "GC_CP_HYP_MEC1_UCODE_DATA"},
    {0x0f83c, "GC_RLC_GPM_UCODE_ADDR"},
    {0x0f83d, "GC_RLC_GPM_UCODE_DATA"},
    {0x16061, "MP0_SMN_C2PMSG_33"},
    {0x16091, "MP0_SMN_C2PMSG_81"},
    {0x16824, "SMUIO_MCM_CONFIG"},
    {0x16a00, "SMUIO_IP_DISCOVERY_VERSION"},
    {0x1a05e, "MMHUB_DAGB0_WRCLI_GPU_SNOOP_OVERRIDE"},
    {0x1a05f, "MMHUB_DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE"},
    {0x1a0de, "MMHUB_DAGB1_WRCLI_GPU_SNOOP_OVERRIDE"},
    {0x1a0df, "MMHUB_DAGB1_WRCLI_GPU_SNOOP_OVERRIDE_VALUE"},
    {0x1a15e, "MMHUB_DAGB2_WRCLI_GPU_SNOOP_OVERRIDE"},
    {0x1a15f, "MMHUB_DAGB2_WRCLI_GPU_SNOOP_OVERRIDE_VALUE"},
    {0x1a1de, "MMHUB_DAGB3_WRCLI_GPU_SNOOP_OVERRIDE"},
    {0x1a1df, "MMHUB_DAGB3_WRCLI_GPU_SNOOP_OVERRIDE_VALUE"},
    {0x1a25e, "MMHUB_DAGB4_WRCLI_GPU_SNOOP_OVERRIDE"},
    {0x1a25f, "MMHUB_DAGB4_WRCLI_GPU_SNOOP_OVERRIDE_VALUE"},
    {0x1ab80, "MMHUB_VM_L2_CNTL"},
    {0x1ab81, "MMHUB_VM_L2_CNTL2"},
    {0x1ab82, "MMHUB_VM_L2_CNTL3"},
    {0x1ab87, "MMHUB_VM_L2_PROTECTION_FAULT_CNTL"},
    {0x1ab88, "MMHUB_VM_L2_PROTECTION_FAULT_CNTL2"},
    {0x1ab8e, "MMHUB_VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32"},
    {0x1ab8f, "MMHUB_VM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32"},
    {0x1ab91, "MMHUB_VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32"},
    {0x1ab92, "MMHUB_VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32"},
    {0x1ab93, "MMHUB_VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32"},
    {0x1ab94, "MMHUB_VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32"},
    {0x1ab95, "MMHUB_VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32"},
    {0x1ab96, "MMHUB_VM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32"},
    {0x1ab97, "MMHUB_VM_L2_CNTL4"},
    {0x1acac, "MMHUB_MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB"},
    {0x1acad, "MMHUB_MC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB"},
    {0x1acc0, "MMHUB_MC_VM_FB_LOCATION_BASE"},
    {0x1acc1, "MMHUB_MC_VM_FB_LOCATION_TOP"},
    {0x1acc2, "MMHUB_MC_VM_AGP_TOP"},
    {0x1acc3, "MMHUB_MC_VM_AGP_BOT"},
    {0x1acc4, "MMHUB_MC_VM_AGP_BASE"},
    {0x1acc5, "MMHUB_MC_VM_SYSTEM_APERTURE_LOW_ADDR"},
    {0x1acc6, "MMHUB_MC_VM_SYSTEM_APERTURE_HIGH_ADDR"},
    {0x1acc7, "MMHUB_MC_VM_MX_L1_TLB_CNTL"},
});

// Offsets from the start of one SDMA engine's registers, sorted.
constexpr auto kSdmaNames = std::to_array<Name>({
    {0x00, "UCODE_ADDR"},
    {0x01, "UCODE_DATA"},
    {0x1a, "POWER_CNTL"},
    {0x1b, "CLK_CTRL"},
    {0x1c, "CNTL"},
    {0x1e, "GB_ADDR_CONFIG"},
    {0x1f, "GB_ADDR_CONFIG_READ"},
    {0x21, "SEM_WAIT_FAIL_TIMER_CNTL"},
    {0x2a, "F32_CNTL"},
    {0x2c, "PHASE0_QUANTUM"},
    {0x2d, "PHASE1_QUANTUM"},
    {0x47, "UTCL1_TIMEOUT"},
    {0x4f, "PHASE2_QUANTUM"},
    {0x80, "GFX_RB_CNTL"},
    {0x81, "GFX_RB_BASE"},
    {0x82, "GFX_RB_BASE_HI"},
    {0x83, "GFX_RB_RPTR"},
    {0x84, "GFX_RB_RPTR_HI"},
    {0x85, "GFX_RB_WPTR"},
    {0x86, "GFX_RB_WPTR_HI"},
    {0x87, "GFX_RB_WPTR_POLL_CNTL"},
    {0x88, "GFX_RB_RPTR_ADDR_HI"},
    {0x89, "GFX_RB_RPTR_ADDR_LO"},
    {0x8a, "GFX_IB_CNTL"},
    {0x92, "GFX_DOORBELL"},
    {0xab, "GFX_DOORBELL_OFFSET"},
    {0xb2, "GFX_RB_WPTR_POLL_ADDR_HI"},
    {0xb3, "GFX_RB_WPTR_POLL_ADDR_LO"},
    {0xb5, "GFX_MINOR_PTR_UPDATE"},
});

constexpr std::array<uint32_t, 5> kSdmaBases = {0x1260, 0x1860, 0x1e000, 0x1e400, 0x1e800};
constexpr uint32_t kSdmaWords = 0x400;

template <size_t N>
std::string_view find(const std::array<Name, N>& names, uint32_t dword) {
  const auto it = std::ranges::lower_bound(names, dword, {}, &Name::dword);
  return it != names.end() && it->dword == dword ? it->text : std::string_view();
}

std::string sdma_name(uint32_t dword) {
  for (size_t engine = 0; engine < kSdmaBases.size(); ++engine) {
    const uint32_t offset = dword - kSdmaBases[engine];
    if (offset >= kSdmaWords) continue;
    const auto text = find(kSdmaNames, offset);
    return text.empty() ? amdgpu_criu::formatted("SDMA{}+{:#x}", engine, offset)
                        : amdgpu_criu::formatted("SDMA{}_{}", engine, text);
  }
  return {};
}

// Families of a translation hub: register = base + stride * index.
std::string hub_name(uint32_t dword) {
  struct Family {
    uint32_t first, count, stride;
    std::string_view text;
  };
  static constexpr auto kFamilies = std::to_array<Family>({
      {0x40, 16, 1, "VM_CONTEXT{}_CNTL"},
      {0x51, 18, 1, "VM_INVALIDATE_ENG{}_SEM"},
      {0x63, 18, 1, "VM_INVALIDATE_ENG{}_REQ"},
      {0x75, 18, 1, "VM_INVALIDATE_ENG{}_ACK"},
      {0x87, 18, 2, "VM_INVALIDATE_ENG{}_ADDR_RANGE"},
      {0xab, 16, 2, "VM_CONTEXT{}_PAGE_TABLE_BASE_ADDR"},
      {0xcb, 16, 2, "VM_CONTEXT{}_PAGE_TABLE_START_ADDR"},
      {0xeb, 16, 2, "VM_CONTEXT{}_PAGE_TABLE_END_ADDR"},
  });
  const bool is_gfx = dword - 0x2840 < 0x148;
  if (!is_gfx && dword - 0x1ab80 >= 0x148) return {};
  const uint32_t word = dword - (is_gfx ? 0x2840 : 0x1ab80);
  for (const Family& family : kFamilies) {
    const uint32_t offset = word - family.first;
    if (offset >= family.count * family.stride) continue;
    const uint32_t index = offset / family.stride;
    return (is_gfx ? "GC_" : "MMHUB_") +
           amdgpu_criu::formatted_from(family.text, std::make_format_args(index));
  }
  return {};
}

}  // namespace

std::string register_number(uint32_t dword) { return amdgpu_criu::formatted("{:#07x}", dword); }

std::string register_name(uint32_t dword) {
  std::string text(find(kNames, dword));
  if (text.empty()) text = hub_name(dword);
  if (text.empty()) text = sdma_name(dword);
  return text.empty() ? register_number(dword)
                      : amdgpu_criu::formatted("{} ({:#07x})", text, dword);
}

}  // namespace gpu
