// SPDX-License-Identifier: GPL-2.0
// Instructions of GFX9's trap handlers: hardware registers, registers by index, messages, return.
// Fields of the hardware registers: gc_9_4_2_sh_mask.h, SQ_WAVE_*.
#include "shader/hardware_field.h"

namespace gpu::shader {
namespace {

// Field::id
enum Hwreg : unsigned {
  kMode = 1,
  kStatus = 2,
  kTrapsts = 3,
  kHwId = 4,
  kGprAlloc = 5,
  kLdsAlloc = 6,
  kIbSts = 7,
  kShMemBases = 15,
  kTmaLo = 18,
  kTmaHi = 19,
  kXccId = 20,  // gfx942
};

uint32_t gpr_alloc(const Wave& wave) {
  return (wave.vgprs / 8 - 1) << 6 | (wave.accum_offset / 4 - 1) << 12 | (kSgprs / 16 - 1) << 24;
}

// LDS_SIZE counts 64 doublewords.
uint32_t lds_alloc(const Wave& wave) {
  return static_cast<uint32_t>(wave.group->lds.size() / 256) << 12;
}

void getreg(Wave& wave, const Instruction& in) {
  const Field field(in);
  uint32_t value = 0;
  switch (field.id) {
    case kMode:
      value = wave.mode;
      break;
    case kStatus:
      value = wave.status_word();
      break;
    case kTrapsts:
      value = wave.trapsts;
      break;
    case kHwId:
      value = wave.hw_id;
      break;
    case kGprAlloc:
      value = gpr_alloc(wave);
      break;
    case kLdsAlloc:
      value = lds_alloc(wave);
      break;
    case kIbSts:
      value = wave.ib_sts;
      break;
    case kShMemBases:
      value = high32(wave.apertures.scratch) >> 16 | (high32(wave.apertures.shared) & 0xffff0000);
      break;
    case kTmaLo:
      value = low32(wave.trap.tma >> 8);
      break;
    case kTmaHi:
      value = high32(wave.trap.tma >> 8);
      break;
    case kXccId:
      if (in.isa == Isa::kGfx942) {
        value = wave.xcc;
        break;
      }
      [[fallthrough]];
    default:
      return wave.refuse(amdgpu_criu::formatted("s_getreg_b32 of hardware register {}", field.id));
  }
  wave.set_s(in.dst, field.of(value));
}

void set_register(Wave& wave, const Instruction& in, uint32_t value) {
  const Field field(in);
  const auto merged = [&](uint32_t old) { return field.merged(old, value); };
  if (field.id == kMode) {
    wave.mode = merged(wave.mode);
    if (wave.mode & mode::kVskip) wave.refuse("skipping of vector instructions is not modelled");
    if (wave.mode & mode::kExceptions)
      wave.refuse(amdgpu_criu::formatted("MODE {:#x} is not modelled", wave.mode));
    return;
  }
  if (!wave.privileged()) {
    return wave.refuse(amdgpu_criu::formatted("s_setreg_b32 of hardware register {}", field.id));
  }
  switch (field.id) {
    case kStatus:
      set_status_word(wave, merged(wave.status_word()));
      break;
    case kTrapsts:
      wave.trapsts = merged(wave.trapsts);
      break;
    case kIbSts:
      wave.ib_sts = merged(wave.ib_sts);
      break;
    default:
      wave.refuse(amdgpu_criu::formatted("s_setreg_b32 of hardware register {}", field.id));
  }
}
void setreg(Wave& wave, const Instruction& in) { set_register(wave, in, wave.s(in.dst)); }
void setreg_imm32(Wave& wave, const Instruction& in) { set_register(wave, in, in.literal); }

void setvskip(Wave& wave, const Instruction& in) {
  const uint32_t bit = wave.scalar(in.src[0], in) >> (wave.scalar(in.src[1], in) & 31) & 1;
  wave.mode &= ~mode::kVskip;
  if (bit) wave.refuse("skipping of vector instructions is not modelled");
}

// M0 selects the register, relative to the one that is named. Registers after VCC are allocated but
// have no name, so no instruction can read them. On gfx11 there are none.
bool is_unnamed(unsigned code) { return code > operand::kVcc + 1 && code < kSgprs; }

template <unsigned kDwords>
void movrels(Wave& wave, const Instruction& in) {
  const unsigned code = in.src[0] + wave.s(operand::kM0);
  if (code + kDwords > kSgprs) return wave.refuse("s_movrels beyond the SGPRs");
  for (unsigned i = 0; i < kDwords; ++i) {
    wave.set_s(in.dst + i, is_unnamed(code + i) ? 0 : wave.s(code + i));
  }
}

template <unsigned kDwords>
void movreld(Wave& wave, const Instruction& in) {
  const unsigned code = in.dst + wave.s(operand::kM0);
  if (code + kDwords > kSgprs) return wave.refuse("s_movreld beyond the SGPRs");
  for (unsigned i = 0; i < kDwords; ++i) {
    if (!is_unnamed(code + i)) wave.set_s(code + i, wave.scalar(in.src[0] + i, in));
  }
}

// M0: index [7:0], which operands it counts for [15:12].
void set_gpr_idx_on(Wave& wave, const Instruction& in) {
  wave.mode |= mode::kGprIdxEn;
  wave.set_s(operand::kM0, (wave.s(operand::kM0) & ~0xf0ffu) | (wave.scalar(in.src[0], in) & 0xff) |
                               (in.src[1] & 0xfu) << 12);
}
void set_gpr_idx_off(Wave& wave, const Instruction&) { wave.mode &= ~mode::kGprIdxEn; }
void set_gpr_idx_mode(Wave& wave, const Instruction& in) {
  const auto which = static_cast<uint32_t>(in.immediate) & 0xf;
  wave.set_s(operand::kM0, (wave.s(operand::kM0) & ~0xf000u) | which << 12);
}
void set_gpr_idx_idx(Wave& wave, const Instruction& in) {
  wave.set_s(operand::kM0, (wave.s(operand::kM0) & ~0xffu) | (wave.scalar(in.src[0], in) & 0xff));
}

void sendmsg(Wave& wave, const Instruction& in) {
  wave.message = static_cast<uint32_t>(in.immediate) & 0xffff;
  wave.stop = Stop::kMessage;
}

// The wave is examined before it continues, because a trap may be pending.
void rfe(Wave& wave, const Instruction& in) {
  if (!wave.in_handler) return wave.refuse("s_rfe_b64 outside of the trap handler");
  wave.pc = canonical(wave.scalar64(in.src[0], in) & ~uint64_t{3});
  wave.status &= ~status::kPriv;
  wave.in_handler = false;
  wave.stop = Stop::kYield;
}

void end_saved(Wave& wave, const Instruction&) { wave.stop = Stop::kSaved; }

constexpr SpecialOp kOps[] = {
    {"s_getreg_b32", getreg},
    {"s_setreg_b32", setreg},
    {"s_setreg_imm32_b32", setreg_imm32},
    {"s_setvskip", setvskip},
    {"s_movrels_b32", movrels<1>},
    {"s_movrels_b64", movrels<2>},
    {"s_movreld_b32", movreld<1>},
    {"s_movreld_b64", movreld<2>},
    {"s_set_gpr_idx_on", set_gpr_idx_on},
    {"s_set_gpr_idx_off", set_gpr_idx_off},
    {"s_set_gpr_idx_mode", set_gpr_idx_mode},
    {"s_set_gpr_idx_idx", set_gpr_idx_idx},
    {"s_sendmsg", sendmsg},
    {"s_rfe_b64", rfe},
    {"s_endpgm_saved", end_saved},
};

}  // namespace

std::span<const SpecialOp> hardware_ops() { return kOps; }

}  // namespace gpu::shader
