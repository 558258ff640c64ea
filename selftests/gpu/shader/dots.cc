// SPDX-License-Identifier: GPL-2.0
// Operations of pairs of halves with one result: dot products, and sums of both widths of floats.
#include "shader/packed.h"

namespace gpu::shader {
namespace {

// Which of its roundings an operation with several takes from MODE is not documented.
bool refuses_rounding(Wave& wave) {
  const bool other = wave.mode & mode::kRoundMask;
  if (other) wave.refuse("MODE asks for another rounding");
  return other;
}

// neg_hi is abs here. op_sel_hi: the source is 16 bits wide, and op_sel says which half.
float mix_source(uint32_t value, const Instruction& in, unsigned i, bool flush32, bool flush16) {
  const bool narrow = in.op_sel_hi >> i & 1;
  const uint32_t half = half_of(value, in.op_sel >> i & 1);
  float number = narrow ? half_to_float(half_flushed_if(flush16, half))
                        : flushed_if(flush32, std::bit_cast<float>(value));
  if (in.neg_hi >> i & 1) number = std::fabs(number);
  return in.neg >> i & 1 ? -number : number;
}

template <Floats kTo>
void fma_mix(Wave& wave, const Instruction& in) {
  if (refuses_rounding(wave)) return;
  const Denormals wide = Denormals::of32(wave), narrow = Denormals::of16(wave);
  const bool saturates = wave.mode & mode::kFp16Ovfl;
  Lanes buffers[3], out;
  const uint32_t* source[3];
  for (unsigned i = 0; i < 3; ++i) {
    source[i] = halves(wave, in, i, buffers[i], in.op_sel_hi >> i & 1);
  }
  const Row& old = wave.row(in.dst);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const auto number = [&](unsigned i) {
      return mix_source(source[i][lane], in, i, wide.flush_in, narrow.flush_in);
    };
    const float value = flushed_if(wide.flush_out, std::fma(number(0), number(1), number(2)));
    uint32_t half = half_flushed_if(narrow.flush_out, to_half(value));
    if (saturates && is_infinite(half) && std::isfinite(number(0)) && std::isfinite(number(1)) &&
        std::isfinite(number(2)))
      --half;
    out.narrow[lane] = kTo == Floats::kWhole ? to_bits(value)
                       : kTo == Floats::kLow ? (old.lane[lane] & 0xffff0000) | half
                                             : (old.lane[lane] & 0xffff) | half << 16;
  }
  if (in.clamp) clamp_floats<kTo>(wave, out.narrow);
  write_lanes(wave, in.dst, out.narrow);
}

// Whether hardware rounds between the two steps is not public; here each is fused.
void dot2_f32_f16(Wave& wave, const Instruction& in) {
  if (refuses_rounding(wave)) return;
  const auto [flush, flush_result] = Denormals::of32(wave);
  const bool flush_halves = Denormals::of16(wave).flush_in;
  Lanes buffers[3], out;
  const uint32_t* a = halves(wave, in, 0, buffers[0], true);
  const uint32_t* b = halves(wave, in, 1, buffers[1], true);
  const uint32_t* c = halves(wave, in, 2, buffers[2], false);
  const auto half = [&](uint32_t value, unsigned i, bool high) {
    const unsigned select = high ? in.op_sel_hi : in.op_sel;
    const unsigned negate = high ? in.neg_hi : in.neg;
    const float number =
        half_to_float(half_flushed_if(flush_halves, half_of(value, select >> i & 1)));
    return negate >> i & 1 ? -number : number;
  };
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const uint32_t third = in.neg & 4 ? c[lane] ^ 0x80000000 : c[lane];
    float sum = flushed_if(flush, std::bit_cast<float>(third));
    for (const bool high : {false, true}) {
      sum = std::fma(half(a[lane], 0, high), half(b[lane], 1, high), sum);
      sum = flushed_if(flush_result, sum);
    }
    out.narrow[lane] = to_bits(sum);
  }
  if (in.clamp) clamp_floats<Floats::kWhole>(wave, out.narrow);
  write_lanes(wave, in.dst, out.narrow);
}

// As dot2_f32_f16, added to the destination.
void dot2c_f32_f16(Wave& wave, const Instruction& in) {
  if (in.extra == Instruction::Extra::kDpp || in.neg || in.abs)
    return wave.refuse("modifiers of v_dot2c_f32_f16 are not modelled");
  Instruction three = in;
  three.src[2] = in.dst;
  three.op_sel = 0;
  three.op_sel_hi = 3;
  dot2_f32_f16(wave, three);
}

// kSum: the sum of the products of the parts of a and b, exact, to which c is added, of the type of
// the result.
template <typename T, auto kSum>
void dot(Wave& wave, const Instruction& in) {
  Lanes buffers[3], out;
  const uint32_t* source[3];
  for (unsigned i = 0; i < 3; ++i) source[i] = halves(wave, in, i, buffers[i], false);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const auto sum = kSum(in, source[0][lane], source[1][lane]);
    const uint32_t c = source[2][lane];
    out.narrow[lane] =
        in.clamp ? saturated<T>(int64_t{sum} + static_cast<T>(c)) : static_cast<uint32_t>(sum) + c;
  }
  write_lanes(wave, in.dst, out.narrow);
}

template <typename T>
int64_t dot2(const Instruction& in, uint32_t a, uint32_t b) {
  int64_t sum = 0;
  for (const unsigned select : {in.op_sel, in.op_sel_hi}) {
    sum += int64_t{static_cast<T>(half_of(a, select & 1))} *
           static_cast<T>(half_of(b, select >> 1 & 1));
  }
  return sum;
}

template <typename T>
int32_t dot4(const Instruction&, uint32_t a, uint32_t b) {
  int32_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8)
    sum += int32_t{static_cast<T>(a >> shift)} * static_cast<T>(b >> shift);
  return sum;
}

template <bool kSigned>
int32_t dot8(const Instruction&, uint32_t a, uint32_t b) {
  int32_t sum = 0;
  const auto nibble = [](uint32_t value, unsigned shift) {
    const uint32_t top = value << (28 - shift);
    return kSigned ? static_cast<int32_t>(top) >> 28 : static_cast<int32_t>(top >> 28);
  };
  for (unsigned shift = 0; shift < 32; shift += 4) sum += nibble(a, shift) * nibble(b, shift);
  return sum;
}

// Of gfx11: neg says which of the two are signed.
template <unsigned kBits>
int32_t dot_iu(const Instruction& in, uint32_t a, uint32_t b) {
  int32_t sum = 0;
  const auto part = [&](uint32_t value, unsigned shift, bool is_signed) {
    const uint32_t top = value << (32 - kBits - shift);
    return is_signed ? static_cast<int32_t>(top) >> (32 - kBits)
                     : static_cast<int32_t>(top >> (32 - kBits));
  };
  for (unsigned shift = 0; shift < 32; shift += kBits)
    sum += part(a, shift, in.neg & 1) * part(b, shift, in.neg & 2);
  return sum;
}

constexpr SpecialOp kOps[] = {
    {"v_fma_mix_f32", fma_mix<Floats::kWhole>},
    {"v_fma_mixlo_f16", fma_mix<Floats::kLow>},
    {"v_fma_mixhi_f16", fma_mix<Floats::kHigh>},
    {"v_dot2_f32_f16", dot2_f32_f16},
    {"v_dot2c_f32_f16", dot2c_f32_f16},
    {"v_dot2_i32_i16", dot<int32_t, dot2<int16_t>>},
    {"v_dot2_u32_u16", dot<uint32_t, dot2<uint16_t>>},
    {"v_dot8_i32_i4", dot<int32_t, dot8<true>>},
    {"v_dot8_u32_u4", dot<uint32_t, dot8<false>>},
    {"v_dot4_i32_i8", dot<int32_t, dot4<int8_t>>},
    {"v_dot4_u32_u8", dot<uint32_t, dot4<uint8_t>>},
    {"v_dot4_i32_iu8", dot<int32_t, dot_iu<8>>},
    {"v_dot8_i32_iu4", dot<int32_t, dot_iu<4>>},
};

}  // namespace

std::span<const SpecialOp> dot_ops() { return kOps; }

}  // namespace gpu::shader
