// SPDX-License-Identifier: GPL-2.0
// Memory operations that only gfx11 has: each lane has a doubleword behind that of the lane before
// it. VGPRs by index, as the driver's trap handler uses them.
#include "shader/access.h"

namespace gpu::shader {
namespace {

uint64_t own_dword(unsigned lane) { return uint64_t{lane} * 4; }

// The address is a scalar and the offset.
uint64_t memory_address(const Wave& wave, const Instruction& in) {
  const uint64_t base = in.uses_saddr ? wave.s64(in.saddr) : 0;
  return base + static_cast<uint64_t>(int64_t{in.immediate});
}

void global_store_addtid(Wave& wave, const Instruction& in) {
  const uint64_t base = memory_address(wave, in);
  const Row& row = wave.row(in.data);
  for_each_active(wave, [&](unsigned lane) {
    write_place(wave, {.address = base + own_dword(lane), .lane = lane}, &row.lane[lane], 4);
  });
}

void global_load_addtid(Wave& wave, const Instruction& in) {
  const uint64_t base = memory_address(wave, in);
  Row& row = wave.row(in.dst);
  for_each_active(wave, [&](unsigned lane) {
    read_place(wave, {.address = base + own_dword(lane), .lane = lane}, &row.lane[lane], 4);
  });
}

// M0 is an offset, too.
Place lds_place(const Wave& wave, const Instruction& in, unsigned lane) {
  const uint64_t base = (wave.s(operand::kM0) & 0xffff) + static_cast<uint32_t>(in.immediate);
  return {.in = Place::In::kLds, .address = base + own_dword(lane), .lane = lane};
}

void ds_store_addtid(Wave& wave, const Instruction& in) {
  const Row& row = wave.row(in.data);
  for_each_active(wave, [&](unsigned lane) {
    write_place(wave, lds_place(wave, in, lane), &row.lane[lane], 4);
  });
}

void ds_load_addtid(Wave& wave, const Instruction& in) {
  Row& row = wave.row(in.dst);
  for_each_active(wave, [&](unsigned lane) {
    read_place(wave, lds_place(wave, in, lane), &row.lane[lane], 4);
  });
}

// M0 counts for the source, or for the destination. A register that the wave does not have is v0.
unsigned indexed(const Wave& wave, unsigned code) {
  const uint32_t number = code - operand::kVgpr + wave.s(operand::kM0);
  return operand::kVgpr + (number < wave.vgprs ? number : 0);
}

void move(Wave& wave, unsigned to, unsigned from) {
  const Row values = wave.row(from);
  write_lanes(wave, to, values.lane);
}

void movrels(Wave& wave, const Instruction& in) {
  if (in.extra != Instruction::Extra::kNone || in.src[0] < operand::kVgpr)
    return wave.refuse(in.name() + " of this source is not modelled");
  move(wave, in.dst, indexed(wave, in.src[0]));
}

void movreld(Wave& wave, const Instruction& in) {
  if (in.extra != Instruction::Extra::kNone || in.src[0] < operand::kVgpr)
    return wave.refuse(in.name() + " of this source is not modelled");
  move(wave, indexed(wave, in.dst), in.src[0]);
}

constexpr SpecialOp kOps[] = {
    {"global_store_addtid_b32", global_store_addtid},
    {"global_load_addtid_b32", global_load_addtid},
    {"ds_store_addtid_b32", ds_store_addtid},
    {"ds_load_addtid_b32", ds_load_addtid},
    {"v_movrels_b32", movrels},
    {"v_movreld_b32", movreld},
};

}  // namespace

std::span<const SpecialOp> gfx11_memory_ops() { return kOps; }

}  // namespace gpu::shader
