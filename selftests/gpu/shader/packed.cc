// SPDX-License-Identifier: GPL-2.0
// Packed operations (VOP3P): two halves of 16 or 32 bits, which op_sel and op_sel_hi choose.
#include "shader/packed.h"

#include <algorithm>

namespace gpu::shader {
namespace {

bool refuses_clamp(Wave& wave, const Instruction& in) {
  if (in.clamp) wave.refuse("clamp of this packed operation is not modelled");
  return in.clamp;
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
};

}  // namespace

std::span<const SpecialOp> packed_ops() { return kOps; }

}  // namespace gpu::shader
