// SPDX-License-Identifier: GPL-2.0
// Operations of 16 bits; results leave zeroes in the upper half, as all of GFX9 does (LLVM,
// zeroesHigh16BitsOfDest). A float of 16 bits is computed in one of 32 and rounded once more,
// which gives the same as rounding once for +, -, * and square roots; FMA is computed in 64 bits.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using U = uint16_t;
using I = int16_t;
using H = Half;

constexpr auto kFma = [](float a, float b, float c) {
  return std::fma(double{a}, double{b}, double{c});
};
template <bool kIeee>
constexpr auto kMin = [](float a, float b) { return pick<false, kIeee>(a, b); };
template <bool kIeee>
constexpr auto kMax = [](float a, float b) { return pick<true, kIeee>(a, b); };
template <bool kIeee>
constexpr auto kFmin3 = [](float a, float b, float c) { return kMin<kIeee>(kMin<kIeee>(a, b), c); };
template <bool kIeee>
constexpr auto kFmax3 = [](float a, float b, float c) { return kMax<kIeee>(kMax<kIeee>(a, b), c); };
template <bool kIeee>
constexpr auto kFmed3 = [](float a, float b, float c) {
  if (a != a || b != b || c != c) return kFmin3<kIeee>(a, b, c);
  return kMax<true>(kMin<true>(a, b), kMin<true>(kMax<true>(a, b), c));
};
constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kSubrev = [](auto a, auto b) { return b - a; };
constexpr auto kMin3 = [](auto a, auto b, auto c) { return std::min({a, b, c}); };
constexpr auto kMax3 = [](auto a, auto b, auto c) { return std::max({a, b, c}); };
constexpr auto kMed3 = [](auto a, auto b, auto c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
};

// In 64 bits for operands that have them.
constexpr auto kMul = [](auto a, auto b) {
  using Wide = std::conditional_t<sizeof(a) == 8, int64_t, uint32_t>;
  return static_cast<Wide>(a) * static_cast<Wide>(b);
};
constexpr auto kMad = [](auto a, auto b, auto c) { return kMul(a, b) + c; };

// The largest number below 1 is the largest result.
float fract(float value) { return std::min(value - std::floor(value), 0x1.ffcp-1f); }
float mantissa(float value) {
  int exponent;
  return std::isfinite(value) ? std::frexp(value, &exponent) : value;
}
int exponent(float value) {
  int exponent = 0;
  if (std::isfinite(value)) std::frexp(value, &exponent);
  return exponent;
}

// The quotient is one that was computed in 32 bits.
float div_fixup16(float quotient, float denominator, float numerator) {
  const float sign = std::signbit(denominator) != std::signbit(numerator) ? -1.0f : 1.0f;
  if (numerator != numerator) return quiet_bit_set(numerator);
  if (denominator != denominator) return quiet_bit_set(denominator);
  const bool infinite = std::isinf(denominator);
  if ((denominator == 0 && numerator == 0) || (infinite && std::isinf(numerator)))
    return -std::numeric_limits<float>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator))
    return std::copysign(std::numeric_limits<float>::infinity(), sign);
  if (infinite || numerator == 0) return std::copysign(0.0f, sign);
  return std::copysign(quotient, sign);
}

constexpr VectorOp kOps[] = {
    saturating<U, U, U>("v_add_u16", kAdd),
    saturating<U, U, U>("v_sub_u16", kSub),
    saturating<U, U, U>("v_subrev_u16", kSubrev),
    saturating<U, U, U>("v_mul_lo_u16", kMul),
    op<U, U, U>("v_lshlrev_b16", [](U a, U b) { return b << (a & 15); }),
    op<U, U, U>("v_lshrrev_b16", [](U a, U b) { return b >> (a & 15); }),
    op<U, U, I>("v_ashrrev_i16", [](U a, I b) { return b >> (a & 15); }),
    op<U, U, U>("v_min_u16", [](U a, U b) { return std::min(a, b); }),
    op<U, U, U>("v_max_u16", [](U a, U b) { return std::max(a, b); }),
    op<I, I, I>("v_min_i16", [](I a, I b) { return std::min(a, b); }),
    op<I, I, I>("v_max_i16", [](I a, I b) { return std::max(a, b); }),
    saturating<I, I, I>("v_add_i16", kAdd),
    saturating<I, I, I>("v_sub_i16", kSub),
    op<I, I, I, I>("v_min3_i16", kMin3),
    op<U, U, U, U>("v_min3_u16", kMin3),
    op<I, I, I, I>("v_max3_i16", kMax3),
    op<U, U, U, U>("v_max3_u16", kMax3),
    op<I, I, I, I>("v_med3_i16", kMed3),
    op<U, U, U, U>("v_med3_u16", kMed3),
    saturating<U, U, U, U>("v_mad_u16", kMad),
    saturating<U, U, U, U>("v_mad_legacy_u16", kMad),
    saturating<I, I, I, I>("v_mad_i16", kMad),
    saturating<uint32_t, U, U, uint32_t>("v_mad_u32_u16", kMad),
    saturating<int32_t, I, I, int32_t>("v_mad_i32_i16", kMad),
    op<H, H, H>("v_add_f16", [](float a, float b) { return a + b; }),
    op<H, H, H>("v_sub_f16", [](float a, float b) { return a - b; }),
    op<H, H, H>("v_subrev_f16", [](float a, float b) { return b - a; }),
    op<H, H, H>("v_mul_f16", [](float a, float b) { return a * b; }),
    by_ieee<H, H, H>("v_min_f16", kMin<true>, kMin<false>),
    by_ieee<H, H, H>("v_max_f16", kMax<true>, kMax<false>),
    by_ieee<H, H, H, H>("v_min3_f16", kFmin3<true>, kFmin3<false>),
    by_ieee<H, H, H, H>("v_max3_f16", kFmax3<true>, kFmax3<false>),
    by_ieee<H, H, H, H>("v_med3_f16", kFmed3<true>, kFmed3<false>),
    op<H, H, H, H>("v_fma_f16", kFma),
    accumulate<H, H, H, H>("v_fmac_f16", kFma),
    op<H, H, H, H>("v_fmamk_f16", kFma),
    op<H, H, H, H>("v_fmaak_f16", kFma),
    op<H, H, H, H>("v_div_fixup_f16",
                   [](float a, float b, float c) { return div_fixup16(a, b, c); }),
    op<H, H>("v_fract_f16", [](float a) { return fract(a); }),
    op<H, H>("v_frexp_mant_f16", [](float a) { return mantissa(a); }),
    op<I, H>("v_frexp_exp_i16_f16", [](float a) { return exponent(a); }),
    op<H, H>("v_sqrt_f16", [](float a) { return std::sqrt(a); }),
    op<H, H>("v_rcp_f16", [](float a) { return 1 / a; }),
    op<H, H>("v_rsq_f16", [](float a) { return 1 / std::sqrt(double{a}); }),
    op<H, H>("v_exp_f16", [](float a) { return std::exp2(double{a}); }),
    op<H, H>("v_log_f16", [](float a) { return std::log2(double{a}); }),
    op<H, H>("v_sin_f16", [](float a) { return turn(a, std::sin); }),
    op<H, H>("v_cos_f16", [](float a) { return turn(a, std::cos); }),
    op<H, H>("v_floor_f16", [](float a) { return std::floor(a); }),
    op<H, H>("v_ceil_f16", [](float a) { return std::ceil(a); }),
    op<H, H>("v_trunc_f16", [](float a) { return std::trunc(a); }),
    op<H, H>("v_rndne_f16", [](float a) { return std::nearbyint(a); }),
    op<H, H, U>("v_ldexp_f16", [](float a, U b) { return std::ldexp(a, static_cast<I>(b)); }),
    op<H, U>("v_cvt_f16_u16", [](U a) { return static_cast<float>(a); }),
    op<H, I>("v_cvt_f16_i16", [](I a) { return static_cast<float>(a); }),
    op<U, H>("v_cvt_u16_f16", [](float a) { return saturate<uint16_t>(a); }),
    op<I, H>("v_cvt_i16_f16", [](float a) { return saturate<int16_t>(a); }),
};

}  // namespace

std::span<const VectorOp> narrow_ops() { return kOps; }

}  // namespace gpu::shader
