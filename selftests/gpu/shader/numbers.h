// SPDX-License-Identifier: GPL-2.0
// Numbers as the vector ALU sees them. Nothing here depends on the host's libm for a result that
// the ISA document defines exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>

namespace gpu::shader {

// MODE, whose fields gc_9_4_2_sh_mask.h names.
namespace mode {
constexpr uint32_t kRoundMask = 0xf;
constexpr uint32_t kDenormIn32 = 1 << 4;
constexpr uint32_t kDenormOut32 = 1 << 5;
constexpr uint32_t kDenormIn64 = 1 << 6;  // also of 16 bits
constexpr uint32_t kDenormOut64 = 1 << 7;
constexpr uint32_t kDenormMask = 0xf0;
constexpr uint32_t kDx10Clamp = 1 << 8;
constexpr uint32_t kIeee = 1 << 9;
constexpr uint32_t kExceptions = 0x1ff << 12;
constexpr uint32_t kFp16Ovfl = 1 << 23;
constexpr uint32_t kGprIdxEn = 1 << 27;
constexpr uint32_t kVskip = 1 << 28;
}  // namespace mode

// The rounding that a field of MODE asks for, until the end of the scope.
class HostRounding {
 public:
  explicit HostRounding(unsigned field) : changed_(field != 0) {
    constexpr int kModes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    if (changed_) std::fesetround(kModes[field]);
  }
  ~HostRounding() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  bool changed_;
};

// Signaling NaNs stay signaling, which a conversion by the host would change.
inline float half_to_float(uint32_t half) {
  const uint32_t sign = (half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// The result of an instruction with clamp. Negative zero becomes zero.
template <std::floating_point T>
T clamped(T value, bool nan_to_zero) {
  if (value != value) return nan_to_zero ? 0 : value;
  return std::clamp(value, T(0), T(1)) + T(0);
}

// Rounds once, as the host does at that time: to nearest even unless a HostRounding says otherwise.
template <std::floating_point T>
uint32_t to_half(T value) {
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    uint32_t payload = 0;
    if constexpr (sizeof(T) == 4) payload = std::bit_cast<uint32_t>(value) >> 13 & 0x1ff;
    return sign | 0x7e00 | payload;
  }
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | 0x7c00;
  // Beyond the largest number of the type, all are rounded alike.
  const T limited = std::clamp(value, T(-65535), T(65535));
  int exponent = 0;
  std::frexp(limited, &exponent);
  // The weight of the last bit that the result has.
  const int last = std::max(exponent - 11, -24);
  const auto units = static_cast<uint32_t>(std::fabs(std::nearbyint(std::ldexp(limited, -last))));
  const uint32_t bits = static_cast<uint32_t>(last + 24) << 10;
  return sign | (bits + units);
}

// Never past the value: beyond the largest number, that is the result.
inline uint32_t to_half_toward_zero(float value) {
  const uint32_t rounded = to_half(value);
  if (std::isnan(value) || std::isinf(value)) return rounded;
  return std::fabs(half_to_float(rounded)) > std::fabs(value) ? rounded - 1 : rounded;
}

// The upper half of a float, rounded to nearest even.
inline uint32_t to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// The floats of 8 bits of gfx942: E4M3 and E5M2 without infinities and without a negative zero,
// whose code is the NaN.
enum class Float8 : uint8_t { kFp8, kBf8 };
constexpr unsigned fraction_bits(Float8 type) { return type == Float8::kFp8 ? 3 : 2; }
constexpr int bias_of(Float8 type) { return type == Float8::kFp8 ? 8 : 16; }

inline float float8_to_float(Float8 type, uint32_t byte) {
  constexpr uint32_t kNan = 0x80;
  if (byte == kNan) return std::numeric_limits<float>::quiet_NaN();
  const unsigned bits = fraction_bits(type);
  const uint32_t field = (byte & 0x7f) >> bits, fraction = byte & ((1u << bits) - 1);
  const auto whole = static_cast<float>(fraction | (field ? 1u << bits : 0));
  const int exponent =
      std::max(static_cast<int>(field), 1) - bias_of(type) - static_cast<int>(bits);
  return std::ldexp(byte & 0x80 ? -whole : whole, exponent);
}

// With its sign. A number that is too large is NaN, or the largest one.
inline uint32_t float8_code(uint32_t code, bool negative, bool saturates) {
  constexpr uint32_t kNan = 0x80, kLargest = 0x7f;
  if (code > kLargest && !saturates) return kNan;
  const uint32_t magnitude = std::min(code, kLargest);
  return magnitude && negative ? magnitude | 0x80 : magnitude;
}

// Rounds to nearest even.
inline uint32_t to_float8(Float8 type, float value, bool saturates = false) {
  constexpr uint32_t kNan = 0x80;
  if (!std::isfinite(value)) return kNan;
  if (value == 0) return 0;
  const auto bits = static_cast<int>(fraction_bits(type));
  const int smallest = 1 - bias_of(type) - bits;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - 1 - bits, smallest);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::fabs(value), -last)));
  const uint32_t code = (static_cast<uint32_t>(last - smallest) << bits) + units;
  return float8_code(code, std::signbit(value), saturates);
}

// The high bits of a random number are added to the bits that the result does not have, which are
// dropped then. Bits below those of a denormal result with a fraction of 23 bits do not count. The
// ISA document rounds once more; captures of a later chip show this.
inline uint32_t to_float8_at_random(Float8 type, float value, uint32_t random, bool saturates) {
  constexpr uint32_t kNan = 0x80, kHidden = 1 << 23;
  if (!std::isfinite(value)) return kNan;
  const auto raw = std::bit_cast<uint32_t>(value);
  const unsigned kept = fraction_bits(type), dropped = 23 - kept;
  const int exponent = static_cast<int>(raw >> 23 & 0xff) - 127 + bias_of(type);
  const auto field = static_cast<uint32_t>(std::max(exponent, 1));
  const int shift = std::max(1 - exponent, 0);
  const uint32_t significand = shift < 24 ? (raw % kHidden | kHidden) >> shift : 0;
  const uint32_t sum = (significand + (random >> (32 - dropped))) >> dropped;
  return float8_code(((field - 1) << kept) + sum, std::signbit(value), saturates);
}

template <std::floating_point T>
constexpr auto to_bits(T value) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint64_t>(value);
  }
}

template <std::floating_point T>
constexpr T quiet_bit_set(T value) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | 0x00400000);
  } else {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(value) | 0x0008000000000000);
  }
}

template <std::floating_point T>
constexpr bool is_signaling(T value) {
  return (value != value) & (to_bits(value) != to_bits(quiet_bit_set(value)));
}

// The biased exponent.
template <std::floating_point T>
constexpr int exponent_of(T value) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 0xff);
  } else {
    return static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff);
  }
}

template <std::floating_point T>
constexpr bool is_denormal(T value) {
  return value != 0 && exponent_of(value) == 0;
}

template <std::floating_point T>
constexpr T flushed(T value) {
  return is_denormal(value) ? std::copysign(T(0), value) : value;
}
constexpr uint32_t flushed_half(uint32_t half) { return half & 0x7c00 ? half : half & ~0x3ffu; }

// A NaN loses against a number; with MODE.IEEE set, a signaling one comes out quiet. The last rule
// that applies counts: without branches, the compiler handles many lanes at a time.
template <bool kMax, bool kIeee = true, std::floating_point T>
T pick(T a, T b) {
  T result = (a < b) == kMax ? b : a;
  result = a == b ? (std::signbit(a) == kMax ? b : a) : result;
  result = b != b ? a : result;
  result = a != a ? b : result;
  if constexpr (!kIeee) return result;
  result = is_signaling(b) ? quiet_bit_set(b) : result;
  return is_signaling(a) ? quiet_bit_set(a) : result;
}

// Truncates and saturates; NaN gives 0.
template <std::integral To, std::floating_point From>
To saturate(From value) {
  if (value != value) return 0;
  constexpr auto kMin = static_cast<From>(std::numeric_limits<To>::min());
  constexpr uint64_t kHalf = uint64_t{1} << (std::numeric_limits<To>::digits - 1);
  constexpr auto kPastMax = static_cast<From>(kHalf) * 2;
  if (value <= kMin) return std::numeric_limits<To>::min();
  if (value >= kPastMax) return std::numeric_limits<To>::max();
  return static_cast<To>(value);
}

// v_div_scale, v_div_fmas and v_div_fixup: with them and a reciprocal that is right within one
// unit in the last place, LLVM's code for a division rounds correctly. The test divides.
template <std::floating_point T>
struct DivConstants;
template <>
struct DivConstants<float> {
  static constexpr int kScale = 64, kFar = 96, kTiny = 23, kBias = 127, kUnderflow = -150;
};
template <>
struct DivConstants<double> {
  static constexpr int kScale = 128, kFar = 768, kTiny = 53, kBias = 1023, kUnderflow = -1075;
};

template <std::floating_point T>
struct Scaled {
  T value;
  bool vcc;
};

template <std::floating_point T>
Scaled<T> div_scale(T value, T denominator, T numerator) {
  using C = DivConstants<T>;
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  const bool is_denominator = to_bits(value) == to_bits(denominator);
  const bool is_numerator = to_bits(value) == to_bits(numerator);
  const T reciprocal = 1 / denominator;
  const T quotient = numerator / denominator;
  const bool tiny_quotient = is_denormal(quotient) || quotient == 0;
  if (exponent_of(numerator) - exponent_of(denominator) >= C::kFar) {
    return {is_denominator ? std::ldexp(value, C::kScale) : value, true};
  }
  if (is_denormal(denominator)) return {std::ldexp(value, C::kScale), false};
  if (is_denormal(reciprocal) && tiny_quotient) {
    return {is_denominator ? std::ldexp(value, -C::kScale) : value, true};
  }
  if (is_denormal(reciprocal)) return {std::ldexp(value, -C::kScale), false};
  if (tiny_quotient) return {is_numerator ? std::ldexp(value, C::kScale) : value, true};
  if (exponent_of(numerator) <= C::kTiny) return {std::ldexp(value, C::kScale), false};
  return {value, false};
}

template <std::floating_point T>
T div_fmas(T a, T b, T c, bool vcc) {
  using C = DivConstants<T>;
  if (!vcc) return std::fma(a, b, c);
  const int scale = exponent_of(c) > C::kBias ? C::kScale : -C::kScale;
  // Rounded once where the wider type makes that possible.
  if constexpr (sizeof(T) == 4) {
    return static_cast<float>(std::ldexp(std::fma(double{a}, double{b}, double{c}), scale));
  } else {
    return std::ldexp(std::fma(a, b, c), scale);
  }
}

template <std::floating_point T>
T div_fixup(T quotient, T denominator, T numerator) {
  using C = DivConstants<T>;
  using Limits = std::numeric_limits<T>;
  const T sign = std::signbit(denominator) != std::signbit(numerator) ? T(-1) : T(1);
  if (numerator != numerator) return quiet_bit_set(numerator);
  if (denominator != denominator) return quiet_bit_set(denominator);
  const bool infinite_n = std::isinf(numerator), infinite_d = std::isinf(denominator);
  if ((denominator == 0 && numerator == 0) || (infinite_d && infinite_n)) {
    return -Limits::quiet_NaN();
  }
  if (denominator == 0 || infinite_n) return std::copysign(Limits::infinity(), sign);
  if (infinite_d || numerator == 0) return std::copysign(T(0), sign);
  if (exponent_of(numerator) - exponent_of(denominator) < C::kUnderflow) {
    return std::copysign(T(0), sign);
  }
  // For finite operands other than 0, the previous steps return NaN only for a quotient beyond the
  // range of the type.
  if (quotient != quotient) return std::copysign(Limits::infinity(), sign);
  return std::copysign(quotient, sign);
}

// Sine or cosine of a number of revolutions, which is defined within +-256 only.
inline float turn(float value, double (*function)(double)) {
  if (!(std::fabs(value) <= 256)) return function(0) == 0 ? 0.0f : 1.0f;
  return static_cast<float>(function(double{value} * 2 * std::numbers::pi));
}

}  // namespace gpu::shader
