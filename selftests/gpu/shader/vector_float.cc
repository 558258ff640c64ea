// SPDX-License-Identifier: GPL-2.0
// Floating point of 32 and 64 bits, and conversions. The host computes in the same formats and
// rounds to nearest even, so what IEEE 754 defines is exact. v_exp, v_log, v_rcp, v_rsq and v_sin
// have a documented error on hardware; here they are the double-precision value rounded once.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using U = uint32_t;
using I = int32_t;
using F = float;
using D = double;

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kFma = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
template <bool kIeee>
constexpr auto kMin = [](auto a, auto b) { return pick<false, kIeee>(a, b); };
template <bool kIeee>
constexpr auto kMax = [](auto a, auto b) { return pick<true, kIeee>(a, b); };
constexpr auto kTrunc = [](auto a) { return std::trunc(a); };
constexpr auto kCeil = [](auto a) { return std::ceil(a); };
constexpr auto kFloor = [](auto a) { return std::floor(a); };
constexpr auto kRndne = [](auto a) { return std::nearbyint(a); };
constexpr auto kDivFixup = [](auto q, auto d, auto n) { return div_fixup(q, d, n); };

// Not fused, and without denormals whatever MODE says (LLVM, fmad.ftz).
constexpr auto kMad = [](F a, F b, F c) {
  return flushed(flushed(flushed(a) * flushed(b)) + flushed(c));
};

template <bool kIeee>
constexpr auto kMin3 =
    [](F a, F b, F c) { return pick<false, kIeee>(pick<false, kIeee>(a, b), c); };
template <bool kIeee>
constexpr auto kMax3 = [](F a, F b, F c) { return pick<true, kIeee>(pick<true, kIeee>(a, b), c); };
template <bool kIeee>
constexpr auto kMed3 = [](F a, F b, F c) {
  if (a != a || b != b || c != c) return kMin3<kIeee>(a, b, c);
  return pick<true>(pick<false>(a, b), pick<false>(pick<true>(a, b), c));
};

template <typename T>
T fract(T value) {
  constexpr T kBelowOne = sizeof(T) == 4 ? T(0x1.fffffep-1) : T(0x1.fffffffffffffp-1);
  return pick<false>(value - std::floor(value), kBelowOne);
}
template <typename T>
T mantissa(T value) {
  int exponent = 0;
  return std::isfinite(value) ? std::frexp(value, &exponent) : value;
}
template <typename T>
I exponent(T value) {
  int exponent = 0;
  if (std::isfinite(value)) (void)std::frexp(value, &exponent);
  return exponent;
}

F exp2_of(F value) { return flushed(static_cast<F>(std::exp2(D{flushed(value)}))); }
F log2_of(F value) { return static_cast<F>(std::log2(D{flushed(value)})); }
F rcp_of(F value) { return flushed(1 / flushed(value)); }
F rsq_of(F value) { return static_cast<F>(1 / std::sqrt(D{value})); }

// The first 1201 bits of 2 / pi after the binary point.
constexpr uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b0000,
};

// 53 of these bits, from the first one that matters for a value of that exponent, or the next or
// second next 53 bits: sines of large values are computed from the three parts.
D trig_preop(D value, U segment) {
  constexpr int kWidth = 53, kBits = 1201, kLarge = 1077, kHuge = 1968;
  const int exponent = exponent_of(value);
  const int first = static_cast<int>(segment & 31) * kWidth + std::max(exponent - kLarge, 0);
  uint64_t part = 0;
  for (int at = first; at < first + kWidth; ++at) {
    const bool bit = at < kBits && kTwoOverPi[at / 64] >> (63 - at % 64) & 1;
    part = part << 1 | uint64_t{bit};
  }
  const int scale = -kWidth - first + (exponent >= kHuge ? 128 : 0);
  return std::ldexp(static_cast<D>(part), scale);
}

// Replaces the byte of the last operand that the second one names. A NaN gives 0.
U cvt_pk_u8(F value, U which, U old) {
  const unsigned shift = 8 * (which & 3);
  return (old & ~(0xffu << shift)) | U{saturate<uint8_t>(std::nearbyint(value))} << shift;
}

// The faces of a cube by the axis with the largest magnitude, of two equal ones the last.
constexpr bool is_z(F x, F y, F z) {
  return std::fabs(z) >= std::fabs(x) && std::fabs(z) >= std::fabs(y);
}
constexpr bool is_y(F x, F y) { return std::fabs(y) >= std::fabs(x); }
F cube_face(F x, F y, F z) {
  if (is_z(x, y, z)) return z < 0 ? 5 : 4;
  if (is_y(x, y)) return y < 0 ? 3 : 2;
  return x < 0 ? 1 : 0;
}
F cube_s(F x, F y, F z) {
  if (is_z(x, y, z)) return z < 0 ? -x : x;
  if (is_y(x, y)) return x;
  return x < 0 ? z : -z;
}
F cube_t(F x, F y, F z) {
  if (is_z(x, y, z)) return -y;
  if (is_y(x, y)) return y < 0 ? -z : z;
  return -y;
}
F cube_axis(F x, F y, F z) { return 2 * (is_z(x, y, z) ? z : is_y(x, y) ? y : x); }

// A number from -1 or 0 to 1 as an integer of 16 bits. NaN gives 0. How a half is rounded is not
// documented: to even.
template <typename T>
U normalized(F value) {
  constexpr int kLargest = std::numeric_limits<T>::max();
  if (value != value) return 0;
  const D limited = std::clamp<D>(value, std::is_signed_v<T> ? -1 : 0, 1);
  return static_cast<uint16_t>(static_cast<I>(std::nearbyint(limited * kLargest)));
}
template <typename T>
constexpr auto kTwoNormalized = [](F a, F b) { return normalized<T>(a) | normalized<T>(b) << 16; };

template <Float8 kType>
constexpr auto kFloat8 = [](U a) { return float8_to_float(kType, a & 0xff); };
template <Float8 kType>
constexpr auto kTwoFloat8 = [](U a) {
  return join(to_bits(float8_to_float(kType, a & 0xff)),
              to_bits(float8_to_float(kType, a >> 8 & 0xff)));
};

template <unsigned kByte>
constexpr auto kUbyte = [](U a) { return static_cast<F>(a >> (8 * kByte) & 0xff); };

constexpr VectorOp kFloats[] = {
    op<F, F, F>("v_add_f32", kAdd),
    op<F, F, F>("v_sub_f32", kSub),
    op<F, F, F>("v_subrev_f32", [](F a, F b) { return b - a; }),
    op<F, F, F>("v_mul_f32", kMul),
    op<F, F, F>("v_mul_legacy_f32", [](F a, F b) { return a == 0 || b == 0 ? 0.0f : a * b; }),
    by_ieee<F, F, F>("v_min_f32", kMin<true>, kMin<false>),
    by_ieee<F, F, F>("v_max_f32", kMax<true>, kMax<false>),
    by_ieee<F, F, F, F>("v_min3_f32", kMin3<true>, kMin3<false>),
    by_ieee<F, F, F, F>("v_max3_f32", kMax3<true>, kMax3<false>),
    by_ieee<F, F, F, F>("v_med3_f32", kMed3<true>, kMed3<false>),
    op<F, F, F, F>("v_fma_f32", kFma),
    accumulate<F, F, F, F>("v_fmac_f32", kFma),
    accumulate<F, F, F, F>("v_mac_f32", kMad),
    op<F, F, F, F>("v_mad_f32", kMad),
    op<F, F, F, F>("v_madmk_f32", kMad),
    op<F, F, F, F>("v_madak_f32", kMad),
    op<F, F, F, F>("v_fmamk_f32", kFma),
    op<F, F, F, F>("v_fmaak_f32", kFma),
    op<F, F>("v_trunc_f32", kTrunc),
    op<F, F>("v_ceil_f32", kCeil),
    op<F, F>("v_floor_f32", kFloor),
    op<F, F>("v_rndne_f32", kRndne),
    op<F, F>("v_fract_f32", [](F a) { return fract(a); }),
    op<F, F>("v_exp_f32", [](F a) { return exp2_of(a); }),
    op<F, F>("v_log_f32", [](F a) { return log2_of(a); }),
    op<F, F>("v_rcp_f32", [](F a) { return rcp_of(a); }),
    op<F, F>("v_rcp_iflag_f32", [](F a) { return rcp_of(a); }),
    op<F, F>("v_rsq_f32", [](F a) { return rsq_of(a); }),
    op<F, F>("v_sqrt_f32", [](F a) { return std::sqrt(a); }),
    op<F, F>("v_sin_f32", [](F a) { return turn(a, std::sin); }),
    op<F, F>("v_cos_f32", [](F a) { return turn(a, std::cos); }),
    op<F, F, I>("v_ldexp_f32", [](F a, I b) { return std::ldexp(a, b); }),
    op<F, F>("v_frexp_mant_f32", [](F a) { return mantissa(a); }),
    op<I, F>("v_frexp_exp_i32_f32", [](F a) { return exponent(a); }),
    op<F, F, F, F>("v_div_fixup_f32", kDivFixup),
    op<F, F, F, F>("v_cubeid_f32", [](F x, F y, F z) { return cube_face(x, y, z); }),
    op<F, F, F, F>("v_cubesc_f32", [](F x, F y, F z) { return cube_s(x, y, z); }),
    op<F, F, F, F>("v_cubetc_f32", [](F x, F y, F z) { return cube_t(x, y, z); }),
    op<F, F, F, F>("v_cubema_f32", [](F x, F y, F z) { return cube_axis(x, y, z); }),
};

constexpr VectorOp kDoubles[] = {
    op<D, D, D>("v_add_f64", kAdd),
    op<D, D, D>("v_mul_f64", kMul),
    by_ieee<D, D, D>("v_min_f64", kMin<true>, kMin<false>),
    by_ieee<D, D, D>("v_max_f64", kMax<true>, kMax<false>),
    op<D, D, D, D>("v_fma_f64", kFma),
    accumulate<D, D, D, D>("v_fmac_f64", kFma),
    op<D, D>("v_trunc_f64", kTrunc),
    op<D, D>("v_ceil_f64", kCeil),
    op<D, D>("v_floor_f64", kFloor),
    op<D, D>("v_rndne_f64", kRndne),
    op<D, D>("v_fract_f64", [](D a) { return fract(a); }),
    op<D, D>("v_rcp_f64", [](D a) { return 1 / a; }),
    op<D, D>("v_rsq_f64", [](D a) { return 1 / std::sqrt(a); }),
    op<D, D>("v_sqrt_f64", [](D a) { return std::sqrt(a); }),
    op<D, D, I>("v_ldexp_f64", [](D a, I b) { return std::ldexp(a, b); }),
    op<D, D>("v_frexp_mant_f64", [](D a) { return mantissa(a); }),
    op<D, D, U>("v_trig_preop_f64", [](D a, U b) { return trig_preop(a, b); }),
    op<I, D>("v_frexp_exp_i32_f64", [](D a) { return exponent(a); }),
    op<D, D, D, D>("v_div_fixup_f64", kDivFixup),
};

constexpr VectorOp kConversions[] = {
    op<F, I>("v_cvt_f32_i32", [](I a) { return static_cast<F>(a); }),
    op<F, U>("v_cvt_f32_u32", [](U a) { return static_cast<F>(a); }),
    op<U, F>("v_cvt_u32_f32", [](F a) { return saturate<U>(a); }),
    op<I, F>("v_cvt_i32_f32", [](F a) { return saturate<I>(a); }),
    op<I, F>("v_cvt_rpi_i32_f32", [](F a) { return saturate<I>(std::floor(a + 0.5f)); }),
    op<I, F>("v_cvt_flr_i32_f32", [](F a) { return saturate<I>(std::floor(a)); }),
    op<Half, F>("v_cvt_f16_f32", [](F a) { return a; }),
    op<F, Half>("v_cvt_f32_f16", [](F a) { return is_signaling(a) ? quiet_bit_set(a) : a; }),
    op<U, F, F>("v_cvt_pkrtz_f16_f32",
                [](F a, F b) { return to_half_toward_zero(a) | to_half_toward_zero(b) << 16; }),
    op<U, F, U, U>("v_cvt_pk_u8_f32", [](F a, U b, U c) { return cvt_pk_u8(a, b, c); }),
    op<U, F, F>("v_cvt_pknorm_i16_f32", kTwoNormalized<int16_t>),
    op<U, F, F>("v_cvt_pknorm_u16_f32", kTwoNormalized<uint16_t>),
    op<U, Half, Half>("v_cvt_pknorm_i16_f16", kTwoNormalized<int16_t>),
    op<U, Half, Half>("v_cvt_pknorm_u16_f16", kTwoNormalized<uint16_t>),
    op<int16_t, Half>("v_cvt_norm_i16_f16", [](F a) { return normalized<int16_t>(a); }),
    op<uint16_t, Half>("v_cvt_norm_u16_f16", [](F a) { return normalized<uint16_t>(a); }),
    op<F, D>("v_cvt_f32_f64", [](D a) { return static_cast<F>(a); }),
    op<D, F>("v_cvt_f64_f32", [](F a) { return static_cast<D>(a); }),
    op<D, I>("v_cvt_f64_i32", [](I a) { return static_cast<D>(a); }),
    op<D, U>("v_cvt_f64_u32", [](U a) { return static_cast<D>(a); }),
    op<I, D>("v_cvt_i32_f64", [](D a) { return saturate<I>(a); }),
    op<U, D>("v_cvt_u32_f64", [](D a) { return saturate<U>(a); }),
    op<F, U>("v_cvt_f32_fp8", kFloat8<Float8::kFp8>),
    op<F, U>("v_cvt_f32_bf8", kFloat8<Float8::kBf8>),
    op<uint64_t, U>("v_cvt_pk_f32_fp8", kTwoFloat8<Float8::kFp8>),
    op<uint64_t, U>("v_cvt_pk_f32_bf8", kTwoFloat8<Float8::kBf8>),
    op<F, U>("v_cvt_f32_ubyte0", kUbyte<0>),
    op<F, U>("v_cvt_f32_ubyte1", kUbyte<1>),
    op<F, U>("v_cvt_f32_ubyte2", kUbyte<2>),
    op<F, U>("v_cvt_f32_ubyte3", kUbyte<3>),
};

}  // namespace

std::span<const VectorOp> float_ops() { return kFloats; }
std::span<const VectorOp> double_ops() { return kDoubles; }
std::span<const VectorOp> convert_ops() { return kConversions; }

}  // namespace gpu::shader
