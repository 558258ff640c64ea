// SPDX-License-Identifier: GPL-2.0
// Sums of products of a matrix instruction of gfx942, as MMA-Sim has found them on CDNA3: those of
// a group of k are added at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "shader/numbers.h"

namespace gpu::shader {

// A number as an integer times 2^(exponent - fraction bits). The exponent of a denormal or of 0 is
// the smallest one of the type.
struct Split {
  float value;
  int32_t significand;
  int32_t exponent;
};

template <unsigned kExponentBits, unsigned kFractionBits, int kBias>
Split split(uint32_t bits, float value) {
  const uint32_t field = bits >> kFractionBits & ((1u << kExponentBits) - 1);
  const uint32_t fraction = bits & ((1u << kFractionBits) - 1);
  const auto whole = static_cast<int32_t>(fraction | (field ? 1u << kFractionBits : 0));
  const bool negative = bits >> (kExponentBits + kFractionBits) & 1;
  return {value, negative ? -whole : whole, std::max<int>(static_cast<int>(field), 1) - kBias};
}

// Drops bits toward zero.
inline int64_t cut(int64_t value, int bits) {
  const int count = std::min(bits, 62);
  return value < 0 ? -(-value >> count) : value >> count;
}
// Drops bits toward minus infinity.
inline int64_t floored(int64_t value, int bits) { return value >> std::min(bits, 62); }

// The fraction bits of numbers that are aligned to the largest exponent, and of sums of them.
constexpr int kAligned = 24, kOfSum = 31;

// The sum of every kStep-th product of a group, aligned to the largest exponent.
struct Aligned {
  int64_t value = 0;
  int exponent = -1000;
};
template <unsigned kFraction, unsigned kCount, unsigned kStep>
Aligned sum_of_products(const Split* a, const Split* b) {
  Aligned out;
  int64_t products[kCount];
  int exponents[kCount];
  for (unsigned i = 0; i < kCount; i += kStep) {
    products[i] = int64_t{a[i].significand} * b[i].significand * (1 << (kAligned - 2 * kFraction));
    exponents[i] = products[i] ? a[i].exponent + b[i].exponent : -126;
    out.exponent = std::max(out.exponent, exponents[i]);
  }
  for (unsigned i = 0; i < kCount; i += kStep)
    out.value += cut(products[i], out.exponent - exponents[i]);
  return out;
}

// Whether a product or the accumulator is infinite or NaN. A product beyond the range of a float is
// infinite.
inline bool is_special(const Split* a, const Split* b, unsigned count, float c) {
  float zero = c * 0;
  for (unsigned i = 0; i < count; ++i) zero += a[i].value * b[i].value * 0;
  return zero != zero;
}
inline float special_sum(const Split* a, const Split* b, unsigned count, float c) {
  float sum = c;
  for (unsigned i = 0; i < count; ++i) sum += a[i].value * b[i].value;
  return sum;
}

// Products are added exactly after bits below 2^-24 of the largest are dropped; the sum and the
// accumulator lose theirs toward minus infinity, and their sum is rounded once.
inline float add_to(const Aligned& products, float c) {
  const Split last = split<8, 23, 127>(std::bit_cast<uint32_t>(c), c);
  const int largest = std::max(products.exponent, last.exponent);
  const int64_t sum = floored(products.value << (kOfSum - kAligned), largest - products.exponent);
  const int64_t accumulator =
      floored(int64_t{last.significand} << (kAligned - 23), largest - last.exponent);
  const int64_t all = sum + accumulator * (1 << (kOfSum - kAligned));
  return static_cast<float>(std::ldexp(static_cast<double>(all), largest - kOfSum));
}

template <unsigned kFractionBits, unsigned kGroupSize, unsigned kOfWord>
struct Fused {
  using Element = Split;
  using Sum = float;
  static constexpr unsigned kPerWord = kOfWord, kGroup = kGroupSize;
  static float input(uint32_t word) { return std::bit_cast<float>(word); }
  static float add(const Split* a, const Split* b, float sum) {
    if (is_special(a, b, kGroup, sum)) return special_sum(a, b, kGroup, sum);
    return add_to(sum_of_products<kFractionBits, kGroup, 1>(a, b), sum);
  }
};
template <unsigned kGroupSize>
struct FusedFloat16 : Fused<10, kGroupSize, 2> {
  static Split element(uint32_t word, unsigned item) {
    const uint32_t half = word >> 16 * item & 0xffff;
    return split<5, 10, 15>(half, half_to_float(half));
  }
};
template <unsigned kGroupSize>
struct FusedBfloat16 : Fused<7, kGroupSize, 2> {
  static Split element(uint32_t word, unsigned item) {
    const uint32_t half = word >> 16 * item & 0xffff;
    return split<8, 7, 127>(half, std::bit_cast<float>(half << 16));
  }
};
// XF32: the bits of a float that an element does not have are dropped.
struct ShortFloat32 : Fused<10, 4, 1> {
  static Split element(uint32_t word, unsigned) {
    return split<8, 10, 127>(word >> 13, std::bit_cast<float>(word & ~0x1fffu));
  }
};
template <Float8 kType>
Split split8(uint32_t word, unsigned item) {
  constexpr unsigned kFraction = fraction_bits(kType);
  const uint32_t byte = word >> 8 * item & 0xff;
  Split out = split<7 - kFraction, kFraction, bias_of(kType)>(byte, float8_to_float(kType, byte));
  // Products of both types have as many bits as those of FP8.
  if (kType == Float8::kBf8) out.significand *= 2;
  return out;
}
// Products of even and of odd k are added up apart. MMA-Sim has two versions of how these sums are
// rounded.
template <Float8 kA, Float8 kB>
struct FusedFloat8 : Fused<3, 16, 4> {
  static Split element(uint32_t word, unsigned item) { return split8<kA>(word, item); }
  static Split element_of_b(uint32_t word, unsigned item) { return split8<kB>(word, item); }
  static float add(const Split* a, const Split* b, float sum) {
    if (is_special(a, b, kGroup, sum)) return special_sum(a, b, kGroup, sum);
    const auto even = sum_of_products<3, kGroup, 2>(a, b);
    const auto odd = sum_of_products<3, kGroup, 2>(a + 1, b + 1);
    const int largest = std::max(even.exponent, odd.exponent);
    return add_to({.value = floored(even.value, largest - even.exponent) +
                            floored(odd.value, largest - odd.exponent),
                   .exponent = largest},
                  sum);
  }
};

}  // namespace gpu::shader
