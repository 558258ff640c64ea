// SPDX-License-Identifier: GPL-2.0
// Vector operations that read or write scalars, masks, or other lanes.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using Extra = Instruction::Extra;

const uint32_t* narrow(Wave& wave, const Instruction& in, unsigned i, Lanes& buffer,
                       Kind kind = Kind::kB32, bool keeps_denormals = false) {
  return static_cast<const uint32_t*>(vector_source(wave, in, i, kind, buffer, keeps_denormals));
}

void nop(Wave&, const Instruction&) {}

// Without active lanes, the first lane counts as active.
void readfirstlane(Wave& wave, const Instruction& in) {
  const uint64_t exec = wave.exec();
  const unsigned lane = exec ? static_cast<unsigned>(std::countr_zero(exec)) : 0;
  Lanes buffer;
  wave.set_s(in.dst - operand::kVgpr, narrow(wave, in, 0, buffer)[lane]);
}

void readlane(Wave& wave, const Instruction& in) {
  const unsigned lane = wave.scalar(in.src[1], in) % wave.lanes();
  Lanes buffer;
  wave.set_s(in.dst - operand::kVgpr, narrow(wave, in, 0, buffer)[lane]);
}

void writelane(Wave& wave, const Instruction& in) {
  const unsigned lane = wave.scalar(in.src[1], in) % wave.lanes();
  wave.row(in.dst).lane[lane] = wave.scalar(in.src[0], in);
}

// The mask of a VOP2 is VCC, that of a VOP3 its third source.
uint64_t mask_source(Wave& wave, const Instruction& in) {
  return in.format == Format::kVop3 ? wave.mask(in.src[2], in) : wave.vcc();
}

// The sources may have the modifiers of floats.
void cndmask(Wave& wave, const Instruction& in) {
  if (refuses_dpp(wave, in)) return;
  const uint64_t mask = mask_source(wave, in);
  Lanes buffers[2], out;
  const bool modified = in.neg || in.abs;
  const Kind kind = modified ? Kind::kF32 : Kind::kB32;
  const uint32_t* a = narrow(wave, in, 0, buffers[0], kind);
  const uint32_t* b = narrow(wave, in, 1, buffers[1], kind);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    out.narrow[lane] = mask >> lane & 1 ? b[lane] : a[lane];
  }
  write_result(wave, in, out);
}

// The result and the mask of a sum or difference with carry. Only active lanes set their bit.
enum class Carry { kAdd, kSub, kSubrev };
template <Carry kOp, bool kCarryIn>
void carry(Wave& wave, const Instruction& in) {
  if (refuses_dpp(wave, in)) return;
  if (in.extra == Extra::kDpp && dpp_mask(wave, in) != wave.exec()) {
    return wave.refuse("a carry of lanes that DPP leaves out is not modelled");
  }
  const uint64_t carry_in = kCarryIn ? mask_source(wave, in) : 0;
  Lanes buffers[2], out;
  const uint32_t* a = narrow(wave, in, 0, buffers[0]);
  const uint32_t* b = narrow(wave, in, 1, buffers[1]);
  uint64_t carry_out = 0;
  each_lane(wave.lanes(), [&](size_t lane) {
    const auto extra = static_cast<uint32_t>(carry_in >> lane & 1);
    const uint32_t x = kOp == Carry::kSubrev ? b[lane] : a[lane];
    const uint32_t y = kOp == Carry::kSubrev ? a[lane] : b[lane];
    const uint32_t without = kOp == Carry::kAdd ? x + y : x - y;
    const uint32_t result = kOp == Carry::kAdd ? without + extra : without - extra;
    const bool carries =
        kOp == Carry::kAdd ? (without < x) | (result < without) : (x < y) | (without < extra);
    out.narrow[lane] = in.clamp && carries ? (kOp == Carry::kAdd ? ~0u : 0u) : result;
    carry_out |= uint64_t{carries} << lane;
  });
  const unsigned sdst = in.sdst == Instruction::kNoSdst ? operand::kVcc : in.sdst;
  const uint64_t exec = wave.exec();
  write_result(wave, in, out);
  wave.set_mask(sdst, carry_out & exec);
}

template <typename T>
void mad64(Wave& wave, const Instruction& in) {
  Lanes buffers[3], out;
  const uint32_t* a = narrow(wave, in, 0, buffers[0]);
  const uint32_t* b = narrow(wave, in, 1, buffers[1]);
  const auto* c = static_cast<const uint64_t*>(vector_source(wave, in, 2, Kind::kB64, buffers[2]));
  uint64_t carry_out = 0;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    const Wide product = Wide{static_cast<T>(a[lane])} * Wide{static_cast<T>(b[lane])};
    out.wide[lane] = static_cast<uint64_t>(product) + c[lane];
    Wide ignored;
    const bool carry = __builtin_add_overflow(product, static_cast<Wide>(c[lane]), &ignored);
    using Limits = std::numeric_limits<Wide>;
    if (in.clamp && carry)
      out.wide[lane] = static_cast<uint64_t>(product < 0 ? Limits::min() : Limits::max());
    carry_out |= uint64_t{carry} << lane;
  }
  wave.set_mask(in.sdst, carry_out & wave.exec());
  write_wide_lanes(wave, in.dst, out.wide);
}

// As v_mqsad_pk_u16_u8, with sums of 32 bits in four registers, which may be those of a source.
void mqsad_u32(Wave& wave, const Instruction& in) {
  if (in.src[2] < operand::kZero) return wave.refuse(in.name() + " of SGPRs is not modelled");
  Lanes bytes, masks;
  vector_source(wave, in, 0, Kind::kB64, bytes);
  const uint32_t* mask = narrow(wave, in, 1, masks);
  uint32_t out[4][kLanes];
  for (unsigned i = 0; i < 4; ++i) {
    const bool constant = in.src[2] < operand::kVgpr;
    const uint32_t value = constant && i == 0 ? wave.scalar(in.src[2], in) : 0;
    const uint32_t* sums = constant ? nullptr : wave.row(in.src[2] + i).lane;
    for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
      uint64_t sum = sums ? sums[lane] : value;
      for (unsigned shift = 0; shift < 32; shift += 8) {
        const int x = bytes.wide[lane] >> (8 * i + shift) & 0xff, y = mask[lane] >> shift & 0xff;
        if (y) sum += static_cast<uint32_t>(std::abs(x - y));
      }
      out[i][lane] = in.clamp && sum >> 32 ? ~0u : low32(sum);
    }
  }
  for (unsigned i = 0; i < 4; ++i) write_lanes(wave, in.dst + i, out[i]);
}

template <unsigned kFirst>
void mbcnt(Wave& wave, const Instruction& in) {
  Lanes buffers[2], out;
  const uint32_t* mask = narrow(wave, in, 0, buffers[0]);
  const uint32_t* base = narrow(wave, in, 1, buffers[1]);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const unsigned below = std::clamp<int>(static_cast<int>(lane) - int{kFirst}, 0, 32);
    const auto lanes = static_cast<uint32_t>((uint64_t{1} << below) - 1);
    out.narrow[lane] = base[lane] + static_cast<uint32_t>(std::popcount(mask[lane] & lanes));
  }
  write_result(wave, in, out);
}

template <typename T>
void div_scale_op(Wave& wave, const Instruction& in) {
  if (wave.mode & mode::kRoundMask) return wave.refuse("MODE asks for another rounding");
  constexpr Kind kKind = sizeof(T) == 4 ? Kind::kF32 : Kind::kF64;
  using Raw = decltype(to_bits(T{}));
  Lanes buffers[3], out;
  const Raw* source[3];
  for (unsigned i = 0; i < 3; ++i) {
    source[i] = static_cast<const Raw*>(vector_source(wave, in, i, kKind, buffers[i]));
  }
  uint64_t scaled_mask = 0;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const auto scaled =
        div_scale(std::bit_cast<T>(source[0][lane]), std::bit_cast<T>(source[1][lane]),
                  std::bit_cast<T>(source[2][lane]));
    if constexpr (sizeof(T) == 4) {
      out.narrow[lane] = to_bits(scaled.value);
    } else {
      out.wide[lane] = to_bits(scaled.value);
    }
    scaled_mask |= uint64_t{scaled.vcc} << lane;
  }
  wave.set_mask(in.sdst, scaled_mask & wave.exec());
  sizeof(T) == 4 ? write_lanes(wave, in.dst, out.narrow) : write_wide_lanes(wave, in.dst, out.wide);
}

template <typename T>
void div_fmas_op(Wave& wave, const Instruction& in) {
  if (wave.mode & mode::kRoundMask) return wave.refuse("MODE asks for another rounding");
  constexpr Kind kKind = sizeof(T) == 4 ? Kind::kF32 : Kind::kF64;
  using Raw = decltype(to_bits(T{}));
  Lanes buffers[3], out;
  const Raw* source[3];
  for (unsigned i = 0; i < 3; ++i) {
    source[i] = static_cast<const Raw*>(vector_source(wave, in, i, kKind, buffers[i]));
  }
  const uint64_t vcc = wave.vcc();
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const T value = div_fmas(std::bit_cast<T>(source[0][lane]), std::bit_cast<T>(source[1][lane]),
                             std::bit_cast<T>(source[2][lane]), (vcc >> lane & 1) != 0);
    if constexpr (sizeof(T) == 4) {
      out.narrow[lane] = to_bits(value);
    } else {
      out.wide[lane] = to_bits(value);
    }
  }
  sizeof(T) == 4 ? write_lanes(wave, in.dst, out.narrow) : write_wide_lanes(wave, in.dst, out.wide);
}

// The decoder has put the operands into their files.
void accvgpr_move(Wave& wave, const Instruction& in) {
  Lanes buffer;
  write_lanes(wave, in.dst, narrow(wave, in, 0, buffer));
}

void swap(Wave& wave, const Instruction& in) {
  Row& a = wave.row(in.dst);
  Row& b = wave.row(in.src[0]);
  const uint64_t exec = wave.exec();
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    if (exec >> lane & 1) std::swap(a.lane[lane], b.lane[lane]);
  }
}

// Two 16-bit halves, with the modifiers of 16-bit floats.
void pack_b32_f16(Wave& wave, const Instruction& in) {
  Lanes buffers[2], out;
  const uint32_t* a = narrow(wave, in, 0, buffers[0], Kind::kF16, true);
  const uint32_t* b = narrow(wave, in, 1, buffers[1], Kind::kF16, true);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    out.narrow[lane] = (a[lane] & 0xffff) | b[lane] << 16;
  }
  write_result(wave, in, out);
}

// Two floats of 8 bits, in the half of the destination that op_sel[3] names. They are rounded to
// nearest whatever MODE says.
template <Float8 kType>
void cvt_pk_float8(Wave& wave, const Instruction& in) {
  const bool saturates = wave.mode & mode::kFp16Ovfl;
  Lanes buffers[2], out;
  const uint32_t* a = narrow(wave, in, 0, buffers[0], Kind::kF32);
  const uint32_t* b = narrow(wave, in, 1, buffers[1], Kind::kF32);
  const Row& old = wave.row(in.dst);
  const unsigned shift = in.op_sel & 8 ? 16 : 0;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const uint32_t pair = to_float8(kType, std::bit_cast<float>(a[lane]), saturates) |
                          to_float8(kType, std::bit_cast<float>(b[lane]), saturates) << 8;
    out.narrow[lane] = (old.lane[lane] & ~(0xffffu << shift)) | pair << shift;
  }
  write_lanes(wave, in.dst, out.narrow);
}

// One, rounded by a random number, in the byte that op_sel[3:2] names.
template <Float8 kType>
void cvt_sr_float8(Wave& wave, const Instruction& in) {
  const bool saturates = wave.mode & mode::kFp16Ovfl;
  Lanes buffers[2], out;
  const uint32_t* a = narrow(wave, in, 0, buffers[0], Kind::kF32);
  const uint32_t* random = narrow(wave, in, 1, buffers[1]);
  const Row& old = wave.row(in.dst);
  const unsigned shift = (in.op_sel >> 2) * 8;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const uint32_t byte =
        to_float8_at_random(kType, std::bit_cast<float>(a[lane]), random[lane], saturates);
    out.narrow[lane] = (old.lane[lane] & ~(0xffu << shift)) | byte << shift;
  }
  write_lanes(wave, in.dst, out.narrow);
}

constexpr SpecialOp kOps[] = {
    {"v_nop", nop},
    {"v_readfirstlane_b32", readfirstlane},
    {"v_readlane_b32", readlane},
    {"v_writelane_b32", writelane},
    {"v_cndmask_b32", cndmask},
    {"v_add_co_u32", carry<Carry::kAdd, false>},
    {"v_sub_co_u32", carry<Carry::kSub, false>},
    {"v_subrev_co_u32", carry<Carry::kSubrev, false>},
    {"v_addc_co_u32", carry<Carry::kAdd, true>},
    {"v_subb_co_u32", carry<Carry::kSub, true>},
    {"v_subbrev_co_u32", carry<Carry::kSubrev, true>},
    {"v_mad_u64_u32", mad64<uint32_t>},
    {"v_mad_i64_i32", mad64<int32_t>},
    {"v_mqsad_u32_u8", mqsad_u32},
    {"v_mbcnt_lo_u32_b32", mbcnt<0>},
    {"v_mbcnt_hi_u32_b32", mbcnt<32>},
    {"v_div_scale_f32", div_scale_op<float>},
    {"v_div_scale_f64", div_scale_op<double>},
    {"v_div_fmas_f32", div_fmas_op<float>},
    {"v_div_fmas_f64", div_fmas_op<double>},
    {"v_accvgpr_read_b32", accvgpr_move},
    {"v_accvgpr_write_b32", accvgpr_move},
    {"v_accvgpr_mov_b32", accvgpr_move},
    {"v_swap_b32", swap},
    {"v_pack_b32_f16", pack_b32_f16},
    {"v_cvt_pk_fp8_f32", cvt_pk_float8<Float8::kFp8>},
    {"v_cvt_pk_bf8_f32", cvt_pk_float8<Float8::kBf8>},
    {"v_cvt_sr_fp8_f32", cvt_sr_float8<Float8::kFp8>},
    {"v_cvt_sr_bf8_f32", cvt_sr_float8<Float8::kBf8>},
};

}  // namespace

std::span<const SpecialOp> special_vector_ops() { return kOps; }

}  // namespace gpu::shader
