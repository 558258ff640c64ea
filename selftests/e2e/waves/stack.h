// SPDX-License-Identifier: GPL-2.0
// Saved waves as the debugger reads them for gfx90a and gfx1100 (ROCdbgapi, control_stack_iterate
// and register_address), independently of the software GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu {

enum class Generation : uint8_t { kGfx9, kGfx11 };

// One wave's record in the save area: VGPRs of both kinds, SGPRs, HWREGs, TTMPs, and of the first
// wave of a work-group its LDS.
struct SavedWave {
  uint64_t record = 0;  // from the beginning of the records
  uint32_t vgprs = 0, accum_offset = 0, sgprs = 0, lds_bytes = 0;
  uint32_t lanes = 64, sgpr_words = 0;  // with those that have no name
  uint32_t group = 0, number = 0;       // in the order of the control stack

  uint64_t bytes() const;
  uint64_t sgprs_at() const;
  uint64_t hwregs_at() const;
  uint64_t ttmps_at() const;
  uint64_t lds_at() const;
  uint64_t vgpr_bytes() const { return lanes * uint64_t{4}; }
  // Of a register such as s20, v7, a0, lds3 or pc: of the VGPRs lane 0. Nothing if there is none.
  std::optional<uint64_t> register_at(const std::string& name) const;
};

struct SavedQueue {
  uint32_t id = 0;
  unsigned xcc = 0;   // whose waves they are
  uint64_t area = 0;  // address of the records
  uint64_t bytes = 0;
  unsigned groups = 0;
  std::vector<SavedWave> waves;
};

// stack: upwards from its fill level.
SavedQueue decode_stack(std::span<const uint32_t> stack, Generation generation);

// Copies from the memory of the process.
using ReadMemory = std::function<Status(uint64_t address, std::span<std::byte> to)>;

// A line for each register of each wave: "group 0 wave 1 s20 5a010014". A VGPR has 64 lanes, or 32.
Status print_registers(const SavedQueue& queue, const ReadMemory& read);
void print_summary(const SavedQueue& queue);

}  // namespace amdgpu_criu
