// SPDX-License-Identifier: GPL-2.0
// The differences between the modelled chips, as data. Register offsets are doublewords.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/interfaces.h"
#include "mem/hub_layout.h"
#include "regs/ip_registers.h"
#include "shader/isa.h"

namespace gpu {

// Distance of the registers of two XCCs, and of two AIDs.
inline constexpr uint32_t kInstanceStride = 0x10000;

// Ids from the driver's soc15_hw_ip.h.
namespace hw {
enum Id : uint16_t {
  kMp1 = 1,
  kThm = 3,
  kSmuio = 4,
  kGc = 11,
  kVcn = 12,
  kMmhub = 34,
  kAthub = 35,
  kOsssys = 40,
  kHdp = 41,
  kSdma0 = 42,
  kSdma1 = 43,
  kDf = 46,
  kNbif = 108,
  kMp0 = 255,
};
}  // namespace hw

// An entry of the IP discovery table.
struct DiscoveredIp {
  uint16_t hw_id;
  uint8_t instance;
  uint8_t major, minor, revision;
  std::vector<uint32_t> bases;
};

// Registers in which the driver waits for a constant, or reads the identity of the chip.
struct ConstantBlock {
  struct Register {
    uint32_t dword;
    uint32_t value;
  };
  std::string_view name;
  std::vector<Register> registers;
  bool per_xcc = false;
};

// Registers of the command processor that act on queues.
struct CpRegisters {
  uint32_t select;       // GRBM_GFX_CNTL: which descriptor the HQD registers are
  uint32_t hqd;          // CP_MQD_BASE_ADDR, the first of them
  uint32_t mec_control;  // resets of compute pipes
  uint32_t queue_reset;  // SPI_COMPUTE_QUEUE_RESET
  std::optional<uint32_t> mes_control = {};  // CP_MES_CNTL
};

// Registers of the compute units that are fused off.
struct UnitRegisters {
  uint32_t select;  // GRBM_GFX_INDEX: of which shader engine
  uint32_t fused;   // CC_GC_SHADER_ARRAY_CONFIG
  uint32_t user;    // GC_USER_SHADER_ARRAY_CONFIG
};

// The way in which queues of KFD are mapped: by packets of run lists, or by firmware that takes
// frames of commands.
enum class Scheduler : uint8_t { kHws, kMes };

// Interrupts, as the driver of a generation recognises them.
struct InterruptIds {
  uint32_t bus_space = 1;                 // IH_RB_CNTL.MC_SPACE: the ring is guest-physical
  uint8_t gfx_fault_client = 0x1b;        // VM faults of the GC hub
  uint8_t sdma_trap = 224;                // source
  std::optional<uint8_t> sdma_ecc = 220;  // source; none: errors cannot be injected
  bool sdma_ring_has_engine = false;      // the ring field of SDMA traps
};

// Words of an SDMA MQD.
struct SdmaMqdLayout {
  unsigned rptr_addr_hi;
  unsigned rptr_addr_lo;
  unsigned ib_cntl;      // IB_RPTR, IB_OFFSET, IB_BASE, IB_SIZE and SKIP_CNTL follow
  unsigned midcmd;       // MIDCMD_DATA0
  unsigned midcmd_cntl;  // behind the last word of data
  std::optional<unsigned> wptr_poll_hi = {};  // the low half follows; none: packets have it
};
inline constexpr SdmaMqdLayout kSdmaMqd9 = {
    .rptr_addr_hi = 8, .rptr_addr_lo = 9, .ib_cntl = 10, .midcmd = 32, .midcmd_cntl = 41};

// What differs in compute MQDs. Their COMPUTE_* words are in the order of the registers.
struct ComputeMqdLayout {
  unsigned registers;  // so many of them, from word 1 on
  unsigned rsrc3;      // COMPUTE_PGM_RSRC3, from COMPUTE_DISPATCH_INITIATOR on
  unsigned reserved;   // first of 64 words that neither driver nor CP uses
  bool stack_in_area;  // the control stack is in the save area; false: it is behind the MQD
};
inline constexpr ComputeMqdLayout kComputeMqd9 = {
    .registers = 35, .rsrc3 = 45, .reserved = 256, .stack_in_area = false};

// Registers of the user queue that an SDMA engine executes, from the first of the engine.
struct SdmaSelectedRegisters {
  uint32_t status;    // SDMA_RLC0_CONTEXT_STATUS
  uint32_t doorbell;  // SDMA_RLC0_DOORBELL_OFFSET
};

// Headers that the driver expects in a firmware file (amdgpu_ucode.h).
enum class UcodeKind : uint8_t {
  kMec,
  kRlc,
  kSdma,
  kGfxRs64,
  kMes,
  kImu,
  kSdmaThreads,
  kSmc,
  kVcn
};
struct Ucode {
  std::string_view name;
  UcodeKind kind;
  uint32_t version = 1;
};

// The JPEG engine of VCN 4.0. Registers of addresses have a low half; the high half follows.
struct JpegRegisters {
  uint32_t segment;      // their base
  uint32_t first, last;  // of its own
  uint32_t doorbell;     // VCN_JPEG_DB_CTRL
  uint32_t status, rptr, ring_base, ring_size;
  uint32_t buffer_vmid, buffer_base, buffer_size;
  uint32_t command;  // UVD_JPEG_GPCOM_CMD; its data follow
  uint32_t write_base, reference;
};

// The unified queue of VCN 4.0. Registers of addresses as above.
struct VcnRegisters {
  uint32_t power;         // UVD_PGFSM_CONFIG, for JPEG too; _STATUS follows
  uint32_t vcpu_control;  // UVD_VCPU_CNTL
  uint32_t status;        // UVD_STATUS
  uint32_t enable;        // VCN_RB_ENABLE
  uint32_t doorbell;      // VCN_RB1_DB_CTRL
  uint32_t rptr, ring_base, ring_size;
};

// A mailbox of the SMU: the driver waits until the response is not zero.
struct SmuMailbox {
  uint32_t message, argument, response;
};

struct Asic {
  std::string_view name;    // as --asic takes it
  std::string_view target;  // as compilers call it
  shader::Isa isa;

  // PCI.
  uint16_t device_id;
  uint8_t revision;
  uint32_t class_code;
  uint64_t mmio_bytes;
  // HDP_MEM_FLUSH_CNTL in the page of MMIO that processes may map: the driver's
  // MMIO_REG_HOLE_OFFSET.
  uint32_t hdp_flush = (0x80000 - 0x1000) / 4;

  unsigned xccs;  // compute dies: command processor and hub
  unsigned aids;  // base dies: MMHUB and SDMA engines
  unsigned memory_partitions = 1;
  // Counts for each XCC. They are small, because KFD allocates a context save area of about 0.6 MiB
  // per CU for every queue.
  uint8_t shader_engines;
  uint8_t arrays_per_engine;
  uint8_t units_per_array;
  // SRAM with ECC, which the VBIOS reports: a D16 load clears the other half of its register
  // (HasEccHalf in Tensile, d16PreservesUnusedBits in LLVM).
  bool sram_ecc = false;
  // Those that are fused off, a bit for each, by shader engine. Boards of one kind differ in them.
  std::vector<uint32_t> fused_units = {};

  Scheduler scheduler = Scheduler::kHws;
  CpRegisters cp;
  std::optional<UnitRegisters> unit_registers = {};  // none: all units are there
  uint32_t rlc_safe_mode;
  HubLayout gfx_hub_layout;
  HubLayout mm_hub_layout;
  uint32_t gfx_hub;                         // VM_L2_CNTL of XCC 0
  std::vector<uint32_t> mm_hubs;            // of each AID
  std::vector<uint32_t> sdma;               // first register of each engine
  std::optional<uint32_t> sdma_halt;        // F32_CNTL, from there; none: it is not modelled
  std::optional<uint32_t> sdma_reset = {};  // QUEUE_RESET_REQ, from there
  // None: the driver does not look there for queues that hang.
  std::optional<SdmaSelectedRegisters> sdma_selected = {};
  Hub sdma_hub = Hub::kMm;
  SdmaMqdLayout sdma_mqd = kSdmaMqd9;
  ComputeMqdLayout compute_mqd = kComputeMqd9;
  std::vector<uint8_t> sdma_clients;  // of interrupts, by engine of an AID
  InterruptIds interrupts = {};
  uint32_t smn_index;                             // indirect access; the data register follows
  bool extended_smn;                              // PCIE_INDEX2_HI: addresses of more than 32 bits
  std::vector<ConstantBlock::Register> smn = {};  // by byte address; not zero after a reset
  bool interrupt_nodes;                           // entries of the interrupt ring name the die
  std::vector<ConstantBlock> constants;
  std::vector<IpRegisters> registers;  // for messages

  std::optional<SmuMailbox> smu = {};
  std::optional<JpegRegisters> jpeg = {};
  std::optional<VcnRegisters> vcn = {};
  std::optional<uint32_t> golden_clock = {};  // GOLDEN_TSC_COUNT_UPPER; _LOWER follows

  std::vector<Ucode> firmware;
  uint8_t asic_init_format;            // of the VBIOS's command table
  uint16_t dpm_info_bytes = 0;         // of its table smc_dpm_info, all zero; 0: there is none
  unsigned gc_table = 2;               // major version of the discovery binary's GC table
  std::vector<DiscoveredIp> ips = {};  // empty: the driver knows the chip without a table

  bool has_partitions() const { return xccs > 1; }
  bool has_xgmi() const { return gfx_hub_layout.xgmi_control.has_value(); }
  unsigned aid_of_xcc(unsigned xcc) const { return xcc * aids / xccs; }
  unsigned aid_of_sdma(unsigned engine) const {
    return engine * aids / static_cast<unsigned>(sdma.size());
  }
  unsigned units_per_xcc() const {
    int units = shader_engines * arrays_per_engine * units_per_array;
    for (const uint32_t fused : fused_units) units -= std::popcount(fused);
    return static_cast<unsigned>(units);
  }
  unsigned sdma_per_xcc() const { return static_cast<unsigned>(sdma.size()) / xccs; }
};

const Asic& mi210();
// With 16 compute units, so that a control stack has two pages. On hardware it has more.
const Asic& mi210_wide();
// With two shader engines, one of which has a unit less than the other.
const Asic& mi210_4_3();
const Asic& mi210_3_4();
const Asic& mi300x();
// One AID of it: two XCCs, four SDMA engines.
const Asic& mi300x_small();
// The same with its VRAM in two partitions: each XCC is a GPU with its half.
const Asic& mi300x_halves();
const Asic& navi31();

const std::vector<const Asic*>& all_asics();
// Null if there is no such chip.
const Asic* find_asic(std::string_view name);

}  // namespace gpu
