// SPDX-License-Identifier: GPL-2.0
// Instructions with clamp, beside sums and floats of 16 bits, compared with the same computation on
// the CPU.
#include <gmock/gmock.h>

#include "shader/rare_kernels.h"

namespace gpu::test {
namespace {

using shader::half_to_float;

class ClampKernels : public RareKernels {
 protected:
  ClampKernels() : RareKernels("clamps.co") {}
};

int64_t u24(uint32_t value) { return value & 0xffffff; }
int64_t i24(uint32_t value) { return i32(value << 8) >> 8; }

TEST_F(ClampKernels, ProductsStopAtTheLimitsOfTheirType) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("products", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], z = a[i ^ 1], xh = x >> 16, yh = y >> 16, zh = z >> 16;
    ASSERT_EQ(out[i][0], limited<uint32_t>(u24(x) * u24(y)));
    ASSERT_EQ(out[i][1], limited<int32_t>(i24(x) * i24(y)));
    ASSERT_EQ(out[i][2], limited<uint32_t>(u24(x) * u24(y) + z));
    ASSERT_EQ(out[i][3], limited<int32_t>(i24(x) * i24(y) + i32(z)));
    const uint32_t low = limited<uint16_t>(u16(x) * u16(y) + u16(z));
    const uint32_t signed_low = limited<int16_t>(i16(x) * i16(y) + i16(z));
    ASSERT_EQ(out[i][4], low | signed_low << 16);
    ASSERT_EQ(out[i][5], low | limited<uint16_t>(u16(xh) * u16(yh) + u16(zh)) << 16);
    ASSERT_EQ(out[i][6], signed_low | limited<int16_t>(i16(xh) * i16(yh) + i16(zh)) << 16);
    ASSERT_EQ(out[i][7], limited<uint16_t>(u16(x) * u16(y)) | limited<uint16_t>(u16(xh) * u16(yh))
                                                                  << 16);
  }
}

// Of four bytes; masked: those that are 0 in y do not count.
int64_t differences(uint32_t x, uint32_t y, bool masked = false) {
  int64_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    const int64_t of_x = x >> shift & 0xff, of_y = y >> shift & 0xff;
    if (of_y || !masked) sum += std::abs(of_x - of_y);
  }
  return sum;
}

TEST_F(ClampKernels, SumsOfDifferencesStopAtTheLargestNumber) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("sums", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], z = a[i ^ 1] | (i & 1 ? 0xffffff00 : 0);
    const int64_t halves = std::abs(u16(x) - u16(y)) + std::abs(u16(x >> 16) - u16(y >> 16));
    ASSERT_EQ(out[i][0], limited<uint32_t>(differences(x, y) + z));
    ASSERT_EQ(out[i][1], limited<uint32_t>(halves + z));
    ASSERT_EQ(out[i][2], limited<uint32_t>((differences(x, y) << 16) + z));
    ASSERT_EQ(out[i][3], limited<uint32_t>(differences(x, y, true) + z));
    ASSERT_EQ(out[i][4], limited<uint32_t>(int64_t{x} + y));
    ASSERT_EQ(out[i][5], limited<uint32_t>(int64_t{x} - y));
    for (unsigned k = 0; k < 4; ++k) {
      const auto bytes = static_cast<uint32_t>(join(x, y) >> 8 * k);
      const uint32_t start = z >> 16 * (k % 2) & 0xffff;
      ASSERT_EQ(out[i][6 + k / 2] >> 16 * (k % 2) & 0xffff,
                limited<uint16_t>(differences(bytes, y) + start));
    }
  }
}

TEST_F(ClampKernels, SumsOf64BitsStopAtTheLimitsOfTheirType) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("wide_sums", a, b);
  unsigned limits = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], z = a[i ^ 1];
    const uint64_t c = join(z, i & 1 ? 0xffffffff : 0);
    const uint64_t product = uint64_t{x} * y;
    ASSERT_EQ(join(out[i][0], out[i][1]), product > ~c ? ~uint64_t{0} : product + c);
    // The sum of halves is exact in a long double, which has 64 bits.
    const auto signed_c = static_cast<int64_t>(join(z, i & 2 ? 0x7fffffff : 0x80000000));
    const int64_t signed_product = i32(x) * i32(y);
    const long double sum = static_cast<long double>(signed_product) + signed_c;
    const int64_t expected = sum >= 0x1p63L   ? INT64_MAX
                             : sum < -0x1p63L ? INT64_MIN
                                              : signed_product + signed_c;
    ASSERT_EQ(static_cast<int64_t>(join(out[i][2], out[i][3])), expected);
    limits += expected == INT64_MAX || expected == INT64_MIN;
    const uint32_t starts[] = {0xffffffff - (z & 0xff), z, 0xffffffff, 0xfffffff0};
    for (unsigned k = 0; k < 4; ++k) {
      const auto bytes = static_cast<uint32_t>(join(x, y) >> 8 * k);
      ASSERT_EQ(out[i][4 + k], limited<uint32_t>(differences(bytes, y, true) + starts[k]));
    }
  }
  EXPECT_GT(limits, 100u);
}

// Parts of so many bits.
int64_t dot(uint32_t x, uint32_t y, unsigned width, bool has_sign) {
  const auto part = [&](uint32_t value, unsigned shift) {
    const int64_t bits = value >> shift & ((uint64_t{1} << width) - 1);
    return has_sign && bits >> (width - 1) ? bits - (int64_t{1} << width) : bits;
  };
  int64_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += width) sum += part(x, shift) * part(y, shift);
  return sum;
}

TEST_F(ClampKernels, DotProductsStopAtTheLimitsOfTheirType) {
  const auto a = finite_halves(random(1024)), b = finite_halves(random(1024));
  const auto out = run_on("dots", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], u = i & 2 ? 0xfffffff0 : x >> 4;
    const int64_t c = i & 2 ? 0x7ffffff0 : -0x7ffffff0;
    for (const unsigned k : {0u, 2u, 4u}) {
      const unsigned width = 16 >> k / 2;
      ASSERT_EQ(out[i][k], limited<int32_t>(dot(x, y, width, true) + c)) << width;
      ASSERT_EQ(out[i][k + 1], limited<uint32_t>(dot(x, y, width, false) + u)) << width;
    }
    ASSERT_EQ(out[i][6], limited<int32_t>(dot(x, y, 8, true) + c));
    const auto half = [](uint32_t word, unsigned shift) {
      return half_to_float(word >> shift & 0xffff);
    };
    const float sum = std::fma(half(x, 16), half(y, 16), half(x, 0) * half(y, 0));
    ASSERT_EQ(std::bit_cast<float>(out[i][7]), std::clamp(sum, 0.0f, 1.0f));
  }
}

TEST_F(ClampKernels, PairsOfFloatsAreBetween0And1) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("pairs", a, b);
  const auto limited_to_1 = [](float value) { return value > 0 ? std::min(value, 1.0f) : 0; };
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  for (size_t i = 0; i < a.size(); ++i) {
    for (const size_t half : {0, 1}) {
      const float x = number(a[i ^ half]), y = number(b[i ^ half]);
      ASSERT_EQ(number(out[i][half]), limited_to_1(x + y));
      ASSERT_EQ(number(out[i][2 + half]), limited_to_1(x * y));
      ASSERT_EQ(number(out[i][4 + half]), limited_to_1(std::fma(x, y, x)));
    }
  }
}

}  // namespace
}  // namespace gpu::test
