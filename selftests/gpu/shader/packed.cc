// SPDX-License-Identifier: GPL-2.0
// Packed operations (VOP3P): two halves of 16 or 32 bits, which op_sel and op_sel_hi choose.
#include <algorithm>
#include <limits>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

bool refuses_clamp(Wave& wave, const Instruction& in) {
  if (in.clamp) wave.refuse("clamp of this packed operation is not modelled");
  return in.clamp;
}
// Which of its roundings an operation with several takes from MODE is not documented.
bool refuses_rounding(Wave& wave) {
  const bool other = wave.mode & mode::kRoundMask;
  if (other) wave.refuse("MODE asks for another rounding");
  return other;
}

// What MODE says of floats of a width.
struct Denormals {
  bool flush_in, flush_out;

  static Denormals of32(const Wave& wave) {
    return {!(wave.mode & mode::kDenormIn32), !(wave.mode & mode::kDenormOut32)};
  }
  static Denormals of16(const Wave& wave) {
    return {!(wave.mode & mode::kDenormIn64), !(wave.mode & mode::kDenormOut64)};
  }
};
float flushed_if(bool flush, float value) { return flush ? flushed(value) : value; }
uint32_t half_flushed_if(bool flush, uint32_t half) { return flush ? flushed_half(half) : half; }
bool is_infinite(uint32_t half) { return (half & 0x7fff) == 0x7c00; }

// The operand without modifiers; a float constant is the 16-bit one where wanted.
const uint32_t* halves(Wave& wave, const Instruction& in, unsigned i, Lanes& buffer, bool floats) {
  Instruction plain = in;
  plain.neg = plain.abs = plain.op_sel = 0;
  const Kind kind = floats ? Kind::kF16 : Kind::kB32;
  return static_cast<const uint32_t*>(vector_source(wave, plain, i, kind, buffer, true));
}

uint32_t half_of(uint32_t value, bool high) { return high ? value >> 16 : value & 0xffff; }

// The limits of the type of a half, to which an instruction with clamp saturates.
template <typename T>
uint32_t saturated(int64_t value) {
  using Limits = std::numeric_limits<T>;
  return static_cast<uint32_t>(std::clamp<int64_t>(value, Limits::min(), Limits::max()));
}

// Which part of a register is a float.
enum class Floats { kWhole, kLow, kHigh, kBoth };

// Clamps results, in a loop of its own because few instructions have clamp.
template <Floats kPart>
void clamp_floats(const Wave& wave, uint32_t* lanes) {
  const bool nan_to_zero = wave.mode & mode::kDx10Clamp;
  const auto half = [&](uint32_t bits) {
    return to_half(clamped(half_to_float(bits & 0xffff), nan_to_zero));
  };
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    uint32_t& value = lanes[lane];
    const uint32_t low = kPart == Floats::kHigh ? value & 0xffff : half(value);
    const uint32_t high = kPart == Floats::kLow ? value >> 16 : half(value >> 16);
    value = kPart == Floats::kWhole ? to_bits(clamped(std::bit_cast<float>(value), nan_to_zero))
                                    : low | high << 16;
  }
}

// kSaturates: clamp is part of what F does. A float is clamped here.
template <unsigned kSources, bool kFloats, typename F, bool kSaturates = false>
void packed16(Wave& wave, const Instruction& in) {
  if (!kSaturates && !kFloats && refuses_clamp(wave, in)) return;
  const HostRounding rounding(kFloats ? bits(wave.mode, 3, 2) : 0);
  const bool saturates = wave.mode & mode::kFp16Ovfl;
  const Denormals denormals = Denormals::of16(wave);
  Lanes buffers[3], out;
  const uint32_t* source[3] = {};
  for (unsigned i = 0; i < kSources; ++i) source[i] = halves(wave, in, i, buffers[i], kFloats);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    uint32_t result[2];
    for (unsigned high = 0; high < 2; ++high) {
      const unsigned select = high ? in.op_sel_hi : in.op_sel;
      const unsigned negate = high ? in.neg_hi : in.neg;
      uint32_t value[3] = {};
      for (unsigned i = 0; i < kSources; ++i) {
        value[i] = half_of(source[i][lane], select >> i & 1);
        if (kFloats && negate >> i & 1) value[i] ^= 0x8000;
        if (kFloats) value[i] = half_flushed_if(denormals.flush_in, value[i]);
      }
      result[high] = F{}(value[0], value[1], value[2]) & 0xffff;
      if (kFloats) result[high] = half_flushed_if(denormals.flush_out, result[high]);
      if (kFloats && saturates && is_infinite(result[high]) &&
          std::ranges::none_of(value, is_infinite))
        --result[high];
    }
    out.narrow[lane] = result[0] | result[1] << 16;
  }
  if (kFloats && in.clamp) clamp_floats<Floats::kBoth>(wave, out.narrow);
  write_lanes(wave, in.dst, out.narrow);
}

// A word of each lane of an operand of a packed 32-bit operation, of its second register if so
// chosen, in place or in the buffer. A constant is the same in both.
const uint32_t* words(Wave& wave, const Instruction& in, unsigned i, bool second, bool negate,
                      Row& buffer) {
  const unsigned code = in.src[i];
  const uint32_t sign = negate ? 0x80000000 : 0;
  if (code >= operand::kVgpr) {
    const Row& row = wave.row(code + second);
    if (!negate) return row.lane;
    each_lane(wave.lanes(), [&](size_t lane) { buffer.lane[lane] = row.lane[lane] ^ sign; });
    return buffer.lane;
  }
  const bool pair = second && code < operand::kZero;
  const uint32_t value = pair ? high32(wave.scalar64(code, in, false)) : wave.scalar(code, in);
  each_lane(wave.lanes(), [&](size_t lane) { buffer.lane[lane] = value ^ sign; });
  return buffer.lane;
}

// One of the two results. It may be a source.
template <unsigned kSources, typename F, bool kFlushes>
void run_packed32(Wave& wave, const Instruction& in, unsigned select, unsigned negate, Row& out) {
  const Denormals denormals = Denormals::of32(wave);
  Row buffers[kSources];
  const uint32_t* source[3] = {};
  for (unsigned i = 0; i < kSources; ++i) {
    const bool second = select >> i & 1, negated = negate >> i & 1;
    source[i] = in.src[i] >= operand::kVgpr && !negated
                    ? wave.row(in.src[i] + unsigned{second}).lane
                    : words(wave, in, i, second, negated, buffers[i]);
  }
  each_lane(wave.lanes(), [&](size_t lane) {
    float value[3] = {};
    for (unsigned i = 0; i < kSources; ++i)
      value[i] = flushed_if(kFlushes && denormals.flush_in, std::bit_cast<float>(source[i][lane]));
    const float result = F{}(value[0], value[1], value[2]);
    out.lane[lane] = to_bits(flushed_if(kFlushes && denormals.flush_out, result));
  });
}

// Whether the second result does not depend on the register of the first one.
template <unsigned kSources>
bool can_replace_low(const Instruction& in) {
  for (unsigned i = 0; i < kSources; ++i)
    if (in.src[i] + (in.op_sel_hi >> i & 1) == in.dst) return false;
  return true;
}

// Both results are there before either is written, where that matters.
template <unsigned kSources, typename F>
void packed32(Wave& wave, const Instruction& in) {
  constexpr uint32_t kDenormals = mode::kDenormIn32 | mode::kDenormOut32;
  const bool flushes = (wave.mode & kDenormals) != kDenormals;
  const HostRounding rounding(bits(wave.mode, 1, 0));
  const auto run = flushes ? run_packed32<kSources, F, true> : run_packed32<kSources, F, false>;
  if (wave.exec() == wave.lane_mask() && !in.clamp && can_replace_low<kSources>(in)) {
    run(wave, in, in.op_sel, in.neg, wave.row(in.dst));
    run(wave, in, in.op_sel_hi, in.neg_hi, wave.row(in.dst + 1u));
    return;
  }
  Row low, high;
  run(wave, in, in.op_sel, in.neg, low);
  run(wave, in, in.op_sel_hi, in.neg_hi, high);
  if (in.clamp) {
    clamp_floats<Floats::kWhole>(wave, low.lane);
    clamp_floats<Floats::kWhole>(wave, high.lane);
  }
  write_lanes(wave, in.dst, low.lane);
  write_lanes(wave, in.dst + 1u, high.lane);
}

void pk_mov_b32(Wave& wave, const Instruction& in) {
  Row low, high;
  const uint32_t* from = words(wave, in, 0, in.op_sel & 1, false, low);
  each_lane(wave.lanes(), [&](size_t lane) { low.lane[lane] = from[lane]; });
  from = words(wave, in, 1, in.op_sel >> 1 & 1, false, high);
  each_lane(wave.lanes(), [&](size_t lane) { high.lane[lane] = from[lane]; });
  write_lanes(wave, in.dst, low.lane);
  write_lanes(wave, in.dst + 1u, high.lane);
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

using U = uint32_t;
constexpr int16_t i16(U value) { return static_cast<int16_t>(value); }
constexpr U u(int value) { return static_cast<U>(value); }

template <unsigned kSources, typename F>
constexpr SpecialOp integer(std::string_view name, F) {
  return {name, packed16<kSources, false, F>};
}
// Of halves of the type T, in 64 bits.
template <typename T, unsigned kSources, typename F>
int64_t exact(U a, U b, U c) {
  const auto wide = [](U value) { return int64_t{static_cast<T>(value)}; };
  if constexpr (kSources == 3)
    return F{}(wide(a), wide(b), wide(c));
  else
    return F{}(wide(a), wide(b));
}
template <typename T, unsigned kSources = 2, typename F>
constexpr SpecialOp saturating(std::string_view name, F) {
  return {
      name, [](Wave& wave, const Instruction& in) {
        using Wrapped =
            decltype([](U a, U b, U c) { return static_cast<U>(exact<T, kSources, F>(a, b, c)); });
        using Clamped =
            decltype([](U a, U b, U c) { return saturated<T>(exact<T, kSources, F>(a, b, c)); });
        in.clamp ? packed16<kSources, false, Clamped, true>(wave, in)
                 : packed16<kSources, false, Wrapped>(wave, in);
      }};
}
template <unsigned kSources, typename F>
constexpr SpecialOp float16(std::string_view name, F) {
  return {name, packed16<kSources, true, F>};
}
template <unsigned kSources, typename F>
constexpr SpecialOp float32(std::string_view name, F) {
  return {name, packed32<kSources, F>};
}

template <bool kMax>
constexpr SpecialOp picking(std::string_view name) {
  return {name, [](Wave& wave, const Instruction& in) {
            using Ieee = decltype([](U a, U b, U) {
              return to_half(pick<kMax>(half_to_float(a), half_to_float(b)));
            });
            using Other = decltype([](U a, U b, U) {
              return to_half(pick<kMax, false>(half_to_float(a), half_to_float(b)));
            });
            wave.mode& mode::kIeee ? packed16<2, true, Ieee>(wave, in)
                                   : packed16<2, true, Other>(wave, in);
          }};
}

constexpr auto kFma16 = [](U a, U b, U c) {
  return to_half(
      std::fma(double{half_to_float(a)}, double{half_to_float(b)}, double{half_to_float(c)}));
};

// The short format. Which halves of a constant count is not documented.
void pk_fmac_f16(Wave& wave, const Instruction& in) {
  if (in.src[0] < operand::kVgpr || in.extra != Instruction::Extra::kNone)
    return wave.refuse(in.name() + " of this source is not modelled");
  Instruction all = in;
  all.src[2] = in.dst;
  all.op_sel_hi = 7;
  packed16<3, true, decltype(kFma16)>(wave, all);
}

constexpr SpecialOp kOps[] = {
    saturating<int16_t, 3>("v_pk_mad_i16", [](auto a, auto b, auto c) { return a * b + c; }),
    saturating<uint16_t, 3>("v_pk_mad_u16", [](auto a, auto b, auto c) { return a * b + c; }),
    saturating<uint16_t>("v_pk_mul_lo_u16", [](auto a, auto b) { return a * b; }),
    saturating<int16_t>("v_pk_add_i16", [](auto a, auto b) { return a + b; }),
    saturating<uint16_t>("v_pk_add_u16", [](auto a, auto b) { return a + b; }),
    saturating<int16_t>("v_pk_sub_i16", [](auto a, auto b) { return a - b; }),
    saturating<uint16_t>("v_pk_sub_u16", [](auto a, auto b) { return a - b; }),
    integer<2>("v_pk_lshlrev_b16", [](U a, U b, U) { return b << (a & 15); }),
    integer<2>("v_pk_lshrrev_b16", [](U a, U b, U) { return b >> (a & 15); }),
    integer<2>("v_pk_ashrrev_i16", [](U a, U b, U) { return u(i16(b) >> (a & 15)); }),
    integer<2>("v_pk_min_i16", [](U a, U b, U) { return u(std::min(i16(a), i16(b))); }),
    integer<2>("v_pk_max_i16", [](U a, U b, U) { return u(std::max(i16(a), i16(b))); }),
    integer<2>("v_pk_min_u16", [](U a, U b, U) { return std::min(a, b); }),
    integer<2>("v_pk_max_u16", [](U a, U b, U) { return std::max(a, b); }),
    float16<2>("v_pk_add_f16",
               [](U a, U b, U) { return to_half(half_to_float(a) + half_to_float(b)); }),
    float16<2>("v_pk_mul_f16",
               [](U a, U b, U) { return to_half(half_to_float(a) * half_to_float(b)); }),
    picking<false>("v_pk_min_f16"),
    picking<true>("v_pk_max_f16"),
    float16<3>("v_pk_fma_f16", kFma16),
    {"v_pk_fmac_f16", pk_fmac_f16},
    float32<2>("v_pk_add_f32", [](float a, float b, float) { return a + b; }),
    float32<2>("v_pk_mul_f32", [](float a, float b, float) { return a * b; }),
    float32<3>("v_pk_fma_f32", [](float a, float b, float c) { return std::fma(a, b, c); }),
    {"v_pk_mov_b32", pk_mov_b32},
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

std::span<const SpecialOp> packed_ops() { return kOps; }

}  // namespace gpu::shader
