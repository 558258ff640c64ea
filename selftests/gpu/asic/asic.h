// SPDX-License-Identifier: GPL-2.0
// What differs between the chips that the model can be, as data. Register offsets are doublewords.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mem/hub_layout.h"
#include "regs/names.h"

namespace gpu {

// Distance of the registers of two XCCs, and of two AIDs.
inline constexpr uint32_t kInstanceStride = 0x10000;

// An entry of the IP discovery table.
struct DiscoveredIp {
  uint16_t hw_id;
  uint8_t instance;
  uint8_t major, minor, revision;
  std::vector<uint32_t> bases;
};

// Registers in which the driver waits for a constant, or reads what the chip is.
struct ConstantBlock {
  struct Register {
    uint32_t dword;
    uint32_t value;
  };
  std::string_view name;
  std::vector<Register> registers;
  bool per_xcc = false;
};

struct Asic {
  std::string_view name;    // as --asic takes it
  std::string_view target;  // as compilers call it

  // PCI.
  uint16_t device_id;
  uint8_t revision;
  uint32_t class_code;
  uint64_t mmio_bytes;

  unsigned xccs;  // compute dies: command processor and hub
  unsigned aids;  // base dies: MMHUB and SDMA engines
  // Of each XCC. Small, because KFD allocates a context save area of about 0.6 MiB a CU for every
  // queue.
  uint8_t shader_engines;
  uint8_t arrays_per_engine;
  uint8_t units_per_array;

  HubLayout hub_layout;
  uint32_t gfx_hub;                   // VM_L2_CNTL of XCC 0
  std::vector<uint32_t> mm_hubs;      // of each AID
  std::vector<uint32_t> sdma;         // first register of each engine
  uint32_t sdma_halt;                 // F32_CNTL, from there
  std::vector<uint8_t> sdma_clients;  // of interrupts, by engine of an AID
  bool extended_smn;                  // PCIE_INDEX2_HI: addresses of more than 32 bits
  bool interrupt_nodes;               // entries of the interrupt ring name the die
  std::vector<ConstantBlock> constants;
  std::string (*register_name)(uint32_t dword);  // for messages

  std::string_view firmware_gc;  // names of firmware files begin with these
  std::string_view firmware_sdma;
  uint8_t asic_init_format;            // of the VBIOS's command table
  std::vector<DiscoveredIp> ips = {};  // empty: the driver knows the chip without a table

  bool has_partitions() const { return xccs > 1; }
  unsigned aid_of_xcc(unsigned xcc) const { return xcc * aids / xccs; }
  unsigned aid_of_sdma(unsigned engine) const {
    return engine * aids / static_cast<unsigned>(sdma.size());
  }
  unsigned sdma_per_xcc() const { return static_cast<unsigned>(sdma.size()) / xccs; }
};

const Asic& mi210();
const Asic& mi300x();
// One AID of it: two XCCs, four SDMA engines.
const Asic& mi300x_small();

const std::vector<const Asic*>& all_asics();
// Null if there is no such chip.
const Asic* find_asic(std::string_view name);

}  // namespace gpu
