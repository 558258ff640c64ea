// SPDX-License-Identifier: GPL-2.0
// Hardware registers and messages of gfx11. Fields: gc_11_0_0_sh_mask.h, SQ_WAVE_*.
#include "engines/context.h"
#include "shader/hardware_field.h"

namespace gpu::shader {
namespace {

// Field::id
enum Hwreg : unsigned {
  kMode = 1,
  kStatus = 2,
  kTrapsts = 3,
  kGprAlloc = 5,
  kLdsAlloc = 6,
  kIbSts = 7,
  kFlatScratchLo = 20,
  kFlatScratchHi = 21,
  kHwId1 = 23,
  kHwId2 = 24,
  kIbSts2 = 28,
  kShaderCycles = 29,
};

// A unit as HW_ID of GFX9 names it (UnitId); two units are a WGP.
uint32_t hw_id1(const Wave& wave) {
  const uint32_t unit = bits(wave.hw_id, 11, 8), array = bits(wave.hw_id, 12, 12);
  return bits(wave.hw_id, 3, 0) | bits(wave.hw_id, 5, 4) << 8 | unit / 2 << 10 | array << 16 |
         bits(wave.hw_id, 15, 13) << 18;
}

void getreg(Wave& wave, const Instruction& in) {
  constexpr uint32_t kVgprUnit = 4, kLdsUnit = 256, kWave64 = 1 << 11;
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
    case kGprAlloc:
      value = (wave.vgprs / kVgprUnit - 1) << 12;
      break;
    case kLdsAlloc:
      value = static_cast<uint32_t>(wave.group->lds.size() / kLdsUnit) << 12;
      break;
    case kIbSts:
      value = wave.ib_sts;
      break;
    case kFlatScratchLo:
      value = low32(wave.flat_scratch());
      break;
    case kFlatScratchHi:
      value = high32(wave.flat_scratch());
      break;
    case kHwId1:
      value = hw_id1(wave);
      break;
    case kHwId2:
      value = bits(wave.hw_id, 23, 20) << 24;
      break;
    case kIbSts2:
      value = wave.lanes() == kLanes ? kWave64 : 0;
      break;
    case kShaderCycles:
      value = bits(low32(Context::clock()), 19, 0);
      break;
    default:
      return wave.refuse(amdgpu_criu::formatted("s_getreg_b32 of hardware register {}", field.id));
  }
  wave.set_s(in.dst, field.of(value));
}

void set_mode(Wave& wave, uint32_t mode) {
  wave.mode = mode;
  if (mode & mode::kExceptions)
    wave.refuse(amdgpu_criu::formatted("MODE {:#x} is not modelled", mode));
}

void set_register(Wave& wave, const Instruction& in, uint32_t value) {
  const Field field(in);
  const auto merged = [&](uint32_t old) { return field.merged(old, value); };
  const uint64_t scratch = wave.flat_scratch();
  switch (field.id) {
    case kMode:
      return set_mode(wave, merged(wave.mode));
    case kStatus:
      return set_status_word(wave, merged(wave.status_word()));
    case kTrapsts:
      wave.trapsts = merged(wave.trapsts);
      return;
    case kFlatScratchLo:
      return wave.set_flat_scratch(join(merged(low32(scratch)), high32(scratch)));
    case kFlatScratchHi:
      return wave.set_flat_scratch(join(low32(scratch), merged(high32(scratch))));
    default:
      wave.refuse(amdgpu_criu::formatted("s_setreg_b32 of hardware register {}", field.id));
  }
}
void setreg(Wave& wave, const Instruction& in) { set_register(wave, in, wave.s(in.dst)); }
void setreg_imm32(Wave& wave, const Instruction& in) { set_register(wave, in, in.literal); }

void round_mode(Wave& wave, const Instruction& in) {
  wave.mode = (wave.mode & ~mode::kRoundMask) | bits(static_cast<uint32_t>(in.immediate), 3, 0);
}
void denorm_mode(Wave& wave, const Instruction& in) {
  wave.mode = (wave.mode & ~mode::kDenormMask) | bits(static_cast<uint32_t>(in.immediate), 3, 0)
                                                     << 4;
}

// kDeallocVgprs: the VGPRs are not read any more; the next instructions end the wave.
void sendmsg(Wave& wave, const Instruction& in) {
  enum Message : uint32_t { kInterrupt = 1, kDeallocVgprs = 3 };
  const auto message = static_cast<uint32_t>(in.immediate) & 0xffff;
  switch (message) {
    case kInterrupt:
      wave.message = message;
      wave.stop = Stop::kMessage;
      return;
    case kDeallocVgprs:
      wave.status |= status::kNoVgprs;
      return;
    default:
      wave.refuse(amdgpu_criu::formatted("s_sendmsg {} is not modelled", message));
  }
}

// Messages with an answer. The addresses of the trap handler are shifted by 8.
void sendmsg_rtn(Wave& wave, const Instruction& in) {
  enum Message : int {
    kGetDoorbell = 128,
    kGetTma = 130,
    kGetRealtime = 131,
    kSaveWave = 132,
    kGetTba = 133
  };
  uint64_t answer = 0;
  switch (in.immediate) {
    case kGetDoorbell:
      answer = wave.doorbell_id;
      break;
    case kGetTma:
      answer = wave.trap.tma >> 8;
      break;
    case kGetRealtime:
      answer = Context::clock();
      break;
    case kSaveWave:
      if (in.dst != operand::kExec) return wave.refuse("a record that is not for EXEC");
      wave.message = kSaveWave;
      wave.stop = Stop::kMessage;
      return;
    case kGetTba:
      answer = wave.trap.tba >> 8;
      break;
    default:
      return wave.refuse(amdgpu_criu::formatted("{} of message {}", in.name(), in.immediate));
  }
  if (in.name() == "s_sendmsg_rtn_b64") return wave.set_s64(in.dst, answer);
  wave.set_s(in.dst, low32(answer));
}

void sethalt(Wave& wave, const Instruction& in) {
  wave.status = (wave.status & ~status::kHalt) | (in.immediate & 1 ? status::kHalt : 0);
  wave.stop = Stop::kYield;
}

// Waves are always privileged, so this, too, leaves the handler: to an address that is neither in
// its two pages nor that of the second level, which it has from the TMA.
void setpc(Wave& wave, const Instruction& in) {
  constexpr uint64_t kHandlerBytes = 0x2000;
  wave.pc = canonical(wave.scalar64(in.src[0], in) & ~uint64_t{3});
  if (!wave.in_handler || wave.pc - wave.trap.tba < kHandlerBytes) return;
  uint64_t second_level = 0;
  if (!wave.memory->read(wave.trap.tma, &second_level, sizeof(second_level))) return wave.fault();
  if (wave.pc == second_level) return;
  wave.in_handler = false;
  wave.stop = Stop::kYield;
}

constexpr SpecialOp kOps[] = {
    {"s_sethalt", sethalt},
    {"s_setpc_b64", setpc},
    {"s_getreg_b32", getreg},
    {"s_setreg_b32", setreg},
    {"s_setreg_imm32_b32", setreg_imm32},
    {"s_round_mode", round_mode},
    {"s_denorm_mode", denorm_mode},
    {"s_sendmsg", sendmsg},
    {"s_sendmsg_rtn_b32", sendmsg_rtn},
    {"s_sendmsg_rtn_b64", sendmsg_rtn},
};

}  // namespace

std::span<const SpecialOp> gfx11_hardware_ops() { return kOps; }

}  // namespace gpu::shader
