// SPDX-License-Identifier: GPL-2.0
// Instructions that few kernels have, compared with the same computation on the CPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "shader/rare_kernels.h"

namespace gpu::test {
namespace {

using shader::half_to_float;
using shader::to_half;
using ::testing::_;

TEST_F(RareKernels, ClampedSumsStopAtTheLimitsOfTheirType) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("saturating", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], xh = x >> 16, yh = y >> 16;
    ASSERT_EQ(out[i][0], limited<uint32_t>(int64_t{x} + y));
    ASSERT_EQ(out[i][1], limited<uint32_t>(int64_t{x} - y));
    ASSERT_EQ(out[i][2], limited<int32_t>(i32(x) + i32(y)));
    ASSERT_EQ(out[i][3], limited<int32_t>(i32(x) - i32(y)));
    ASSERT_EQ(out[i][4], limited<uint16_t>(u16(x) + u16(y)) | limited<uint16_t>(u16(xh) + u16(yh))
                                                                  << 16);
    ASSERT_EQ(out[i][5], limited<int16_t>(i16(x) - i16(y)) | limited<int16_t>(i16(xh) - i16(yh))
                                                                 << 16);
    ASSERT_EQ(out[i][6], limited<uint16_t>(u16(x) - u16(y)) | limited<uint16_t>(u16(xh) + u16(y))
                                                                  << 16);
    ASSERT_EQ(out[i][7], limited<int16_t>(i16(x) + i16(y)) | limited<int16_t>(i16(xh) - i16(y))
                                                                 << 16);
  }
}

// A NaN becomes 0.
template <typename T>
uint32_t between_0_and_1(T value) {
  return value > 0 ? to_half(std::min<T>(value, 1)) : 0;
}

TEST_F(RareKernels, ClampedFloatsAreBetween0And1) {
  const auto a = random(1024), b = random(1024);
  const auto out = run_on("clamped", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    uint32_t sum = 0, product = 0, fused[2] = {};
    for (const uint32_t shift : {0u, 16u}) {
      const double x = half_to_float(a[i] >> shift & 0xffff);
      const double y = half_to_float(b[i] >> shift & 0xffff);
      sum |= between_0_and_1(x + y) << shift;
      product |= between_0_and_1(shift ? x * y : -x * y) << shift;
      fused[shift / 16] = between_0_and_1(std::fma(x, y, x));
      const float kept = half_to_float(out[i][3] >> shift & 0xffff);
      if (x + y != x + y) {
        ASSERT_TRUE(std::isnan(kept)) << x << " " << y;
      } else {
        ASSERT_EQ(kept, half_to_float(between_0_and_1(x + y))) << x << " " << y;
      }
    }
    ASSERT_EQ(out[i][0], sum);
    ASSERT_EQ(out[i][1], product);
    ASSERT_EQ(out[i][2], fused[0] | fused[1] << 16);
    const float x = half_to_float(a[i] & 0xffff), y = half_to_float(b[i] & 0xffff);
    const float mixed = std::fma(x, y, x);
    ASSERT_EQ(std::bit_cast<float>(out[i][4]), mixed > 0 ? std::min(mixed, 1.0f) : 0);
    ASSERT_EQ(out[i][5], (a[i] & 0xffff0000) | between_0_and_1(mixed));
    ASSERT_EQ(out[i][6], (a[i] & 0xffff) | between_0_and_1(mixed) << 16);
  }
}

TEST_F(RareKernels, HalvesInThreesAndTurns) {
  const auto a = finite_halves(random(2048)), b = finite_halves(random(2048));
  const auto out = run_on("halves", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = half_to_float(a[i] & 0xffff), y = half_to_float(b[i] & 0xffff),
                z = half_to_float(a[i] >> 16);
    std::array<float, 3> sorted = {x, y, z};
    std::ranges::sort(sorted);
    ASSERT_EQ(half_to_float(out[i][0]), sorted[0]);
    ASSERT_EQ(half_to_float(out[i][1]), sorted[2]);
    ASSERT_EQ(half_to_float(out[i][2]), sorted[1]);
    const double turn = double{x} * 2 * std::numbers::pi;
    if (std::fabs(x) <= 256) {
      ASSERT_NEAR(half_to_float(out[i][3]), std::sin(turn), 0x1p-11) << x;
      ASSERT_NEAR(half_to_float(out[i][4]), std::cos(turn), 0x1p-11) << x;
    } else {
      ASSERT_EQ(out[i][3], 0u) << x;
      ASSERT_EQ(out[i][4], to_half(1.0f)) << x;
    }
    const float low = std::fma(x, y, 1.5f);
    const float sum = std::fma(z, half_to_float(b[i] >> 16), low);
    ASSERT_EQ(std::bit_cast<float>(out[i][5]), sum) << x << " " << y;
  }
}

TEST_F(RareKernels, SumsOfDifferencesAndOfHalvesInMemory) {
  auto a = finite_halves(random(512)), b = finite_halves(random(512));
  for (size_t i = 0; i < b.size(); i += 2) b[i] &= 0xff00ffff;
  const auto out = run_on("sums", a, b);
  const auto sum = [](uint32_t x, uint32_t y) {
    const auto half = [&](unsigned shift) {
      return to_half(half_to_float(x >> shift & 0xffff) + half_to_float(y >> shift & 0xffff));
    };
    return half(0) | half(16) << 16;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i];
    uint32_t bytes = 0, masked = 0, means = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const int of_x = x >> shift & 0xff, of_y = y >> shift & 0xff;
      bytes += static_cast<uint32_t>(std::abs(of_x - of_y));
      if (of_y) masked += static_cast<uint32_t>(std::abs(of_x - of_y));
      const bool up = x >> 1 >> shift & 1;
      means |= static_cast<uint32_t>((of_x + of_y + up) / 2) << shift;
    }
    ASSERT_EQ(out[i][0], (bytes << 16) + y);
    const int64_t halves = std::abs(u16(x) - u16(y)) + std::abs(u16(x >> 16) - u16(y >> 16));
    ASSERT_EQ(out[i][1], static_cast<uint32_t>(halves) + y);
    ASSERT_EQ(out[i][2], masked + y);
    ASSERT_EQ(out[i][3], means);
    const uint32_t once = sum(0x3c004000, x);
    ASSERT_EQ(out[i][6], once);
    ASSERT_EQ(out[i][4], sum(once, y));
    ASSERT_EQ(out[i][5], 0x3c004000u);
  }
}

TEST_F(RareKernels, PartsOfRegistersAndOtherLanesInSumsWithCarries) {
  const auto a = random(256), b = random(256);
  const auto out = run_on("parts", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i], lane = i % 64;
    const uint32_t selected = x > y ? y >> 24 : x >> 16;
    ASSERT_EQ(out[i][0], (x & ~0xff00u) | (selected & 0xff) << 8);
    const uint64_t sum = uint64_t{x} + (y & 0xffff);
    ASSERT_EQ(out[i][1], low32(sum) << 16);
    ASSERT_EQ(out[i][2], high32(sum));
    const uint64_t row = uint64_t{lane % 16 ? a[i - 1] : 0} + y;
    ASSERT_EQ(out[i][3], low32(row));
    ASSERT_EQ(out[i][4], high32(row));
    // Rows 0 and 2, except the lanes whose source is beyond the end of the row.
    const bool written = lane / 16 % 2 == 0 && lane % 16 < 14;
    ASSERT_EQ(out[i][5], !written ? 77 : x > y ? y : a[i + 2]) << lane;
  }
}

TEST_F(RareKernels, DoublesOfOneLaneOfEachRow) {
  std::vector<double> a(128), b(128);
  for (auto* values : {&a, &b})
    for (double& value : *values) value = static_cast<double>(engine_()) * 0x1p-20 - 2000;
  put_all(kData, a);
  put_all(kData + 0x80000, b);
  arguments(kData, kData + 0x80000, kOut);
  ASSERT_TRUE(runs("doubles_of_a_lane", {.grid = {128, 1, 1}, .group = {64, 1, 1}}));
  const auto out = get_all<std::array<double, 2>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t row = i / 16 * 16;
    ASSERT_EQ(out[i][0], i / 16 % 2 == 0 ? std::ceil(a[row + 5]) : 77) << i;
    ASSERT_EQ(out[i][1], std::fma(-a[row + 12], b[i], 1)) << i;
  }
}

// Doublewords beyond the end read 0 and are not written.
TEST_F(RareKernels, ABufferMayEndWithinAnOperand) {
  const auto a = random(256);
  put_all(kData, a);
  arguments(kData, kData, kOut);
  ASSERT_TRUE(runs("buffer_ends", {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
  const auto out = get_all<Row>(kOut, 64);
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t k = 0; k < 4; ++k) {
      ASSERT_EQ(out[i][k], 4 * i + k < 251 ? a[4 * i + k] : 0) << i << " " << k;
      ASSERT_EQ(out[i][4 + k], i < 61 || (i == 61 && k < 2) ? i + 1 : 0) << i << " " << k;
    }
  }
}

TEST_F(RareKernels, ABufferOfRecordsHasBytesForInstructionsWithoutAnIndex) {
  const auto a = random(64);
  const auto out = run_on("bytes_of_records", a, a);
  for (uint32_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i][0], 4 * i < 100 ? a[i] : 0) << i;
}

TEST_F(RareKernels, AddressesOfLdsWrap) {
  const auto a = random(64);
  const auto out = run_on("wrapped_addresses", a, a);
  for (uint32_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(out[i][0], a[i]) << i;
    ASSERT_EQ(out[i][1], a[i] + i) << i;
  }
}

// A sine by the rest of a division by a quarter turn, as LLVM's mathematical functions compute it.
TEST_F(RareKernels, PartsOfTwoOverPiReduceLargeAngles) {
  std::vector<double> a(512);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = std::ldexp(1 + static_cast<double>(engine_()) * 0x1p-32,
                      54 + static_cast<int>(i * 17 % 880));
  put_all(kData, a);
  arguments(kData, kData, kOut);
  const auto count = static_cast<uint32_t>(a.size());
  ASSERT_TRUE(runs("parts_of_two_over_pi", {.grid = {count, 1, 1}, .group = {64, 1, 1}}));
  const auto parts = get_all<std::array<double, 4>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    int exponent = 0;
    const double fraction = std::frexp(a[i], &exponent);
    double quarters = 0;
    for (unsigned part = 0; part < 3; ++part) {
      // The product has more bits than a double.
      const double scaled = std::ldexp(parts[i][part], exponent);
      const double high = fraction * scaled, low = std::fma(fraction, scaled, -high);
      quarters += std::fmod(high, 4) + std::fmod(low, 4);
    }
    ASSERT_NEAR(std::sin(std::fmod(quarters, 4) * std::numbers::pi / 2), std::sin(a[i]), 1e-12)
        << a[i];
  }
}

// What the lanes compute of bytes, once more.
struct FourSads {
  uint64_t sums = 0, masked = 0;
  std::array<uint32_t, 4> wide = {};
};
FourSads four_sads(uint64_t bytes, uint32_t reference, uint64_t start) {
  FourSads out;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t sum = 0, masked = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const int x = bytes >> 8 * (i + k) & 0xff, y = reference >> 8 * k & 0xff;
      sum += static_cast<uint32_t>(std::abs(x - y));
      if (y) masked += static_cast<uint32_t>(std::abs(x - y));
    }
    const uint64_t half = start >> 16 * i & 0xffff;
    out.sums |= ((half + sum) & 0xffff) << 16 * i;
    out.masked |= ((half + masked) & 0xffff) << 16 * i;
    out.wide[i] = masked + i;
  }
  return out;
}

TEST_F(RareKernels, FourSumsOfDifferencesFollowOneAnother) {
  auto a = random(512), b = random(512);
  for (size_t i = 0; i < b.size(); i += 2) b[i] &= 0xff00ffff;
  const auto out = run_on("four_sums", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const FourSads expected = four_sads(join(a[i], a[i ^ 1]), b[i], join(b[i], a[i]));
    ASSERT_EQ(join(out[i][0], out[i][1]), expected.sums);
    ASSERT_EQ(join(out[i][2], out[i][3]), expected.masked);
    for (unsigned k = 0; k < 4; ++k) ASSERT_EQ(out[i][4 + k], expected.wide[k]) << k;
  }
}

TEST_F(RareKernels, BytesAreRoundedAndSaturate) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, uint32_t>> cases = {
      {0.5f, 0},        {1.5f, 2},       {2.5f, 2},
      {127.6f, 128},    {254.5f, 254},   {256, 255},
      {1000, 255},      {-0.4f, 0},      {-1, 0},
      {kInfinity, 255}, {-kInfinity, 0}, {std::numeric_limits<float>::quiet_NaN(), 0}};
  std::vector<uint32_t> a(64), b(64);
  for (uint32_t i = 0; i < a.size(); ++i) {
    a[i] = std::bit_cast<uint32_t>(cases[i % cases.size()].first);
    b[i] = i;
  }
  const auto out = run_on("packed_bytes", a, b);
  for (uint32_t i = 0; i < a.size(); ++i) {
    const unsigned shift = i % 4 * 8;
    ASSERT_EQ(out[i][0],
              (0x11223344 & ~(0xffu << shift)) | cases[i % cases.size()].second << shift);
    const auto byte = [](uint32_t half) {
      return limited<uint8_t>(std::max<int64_t>(i16(half), 0));
    };
    ASSERT_EQ(out[i][1], byte(a[i]) | byte(a[i] >> 16) << 8);
  }
}

// A texture of one dimension: its resource as ROCr fills it in, with bytes where records are
// counted.
class TexelKernels : public RareKernels {
 protected:
  enum DataFormat : uint32_t { k8 = 1, k16 = 2, k32 = 4, k16x2 = 5, k8x4 = 10, k32x4 = 14 };
  enum NumFormat : uint32_t { kUnorm = 0, kSnorm = 1, kUint = 4, kSint = 5, kFloat = 7 };
  // The selectors of the components: one, two or four of the texel, and 0, 0 and 1.
  static constexpr uint32_t kOne = 4 | 1 << 9, kTwo = 4 | 5 << 3 | 1 << 9,
                            kFour = 4 | 5 << 3 | 6 << 6 | 7 << 9;

  std::vector<Row> texels(DataFormat data, NumFormat num, uint32_t select, uint32_t bytes) {
    std::vector<uint32_t> at(64);
    for (uint32_t i = 0; i < at.size(); ++i) at[i] = i ^ 3;
    put_all(kData, memory_);
    put_all(kData + 0x80000, at);
    arguments(kData, kData + 0x80000, kOut, bytes, 62u, data << 15 | num << 12 | select);
    EXPECT_TRUE(runs("texels", {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
    std::vector<Row> out(64);
    const auto got = get_all<Row>(kOut, 64);
    for (uint32_t i = 0; i < 64; ++i) {
      out[at[i]] = got[i];
      EXPECT_EQ(got[i][4], got[i][0]);
    }
    return out;
  }
  uint32_t memory(uint32_t at, uint32_t bytes) const {
    uint32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(memory_.data()) + at, bytes);
    return value;
  }
  std::vector<uint32_t> memory_ = finite_halves(random(256));
};

uint32_t bits_of(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

TEST_F(TexelKernels, HaveTheTypeOfTheResource) {
  const auto bytes = texels(k8, kUint, kOne, 1);
  const auto shorts = texels(k16, kSint, kOne, 2);
  const auto halves = texels(k16x2, kFloat, kTwo, 4);
  const auto normal = texels(k8x4, kUnorm, kFour, 4);
  const auto signed_normal = texels(k16, kSnorm, kOne, 2);
  const auto words = texels(k32x4, kUint, kFour, 16);
  for (uint32_t i = 0; i < 62; ++i) {
    EXPECT_THAT(bytes[i], testing::ElementsAre(memory(i, 1), 0, 0, 1, _, _, _, _));
    const auto number = static_cast<uint32_t>(i16(memory(2 * i, 2)));
    EXPECT_THAT(shorts[i], testing::ElementsAre(number, 0, 0, 1, _, _, _, _));
    for (uint32_t k = 0; k < 2; ++k)
      EXPECT_EQ(halves[i][k], bits_of(half_to_float(memory(4 * i + 2 * k, 2))));
    EXPECT_EQ(halves[i][3], bits_of(1));
    for (uint32_t k = 0; k < 4; ++k) {
      EXPECT_EQ(normal[i][k], bits_of(memory(4 * i + k, 1) / 255.0));
      EXPECT_EQ(words[i][k], memory(16 * i + 4 * k, 4));
    }
    const double fraction = std::max(static_cast<double>(i16(memory(2 * i, 2))) / 32767, -1.0);
    EXPECT_EQ(signed_normal[i][0], bits_of(fraction));
  }
}

TEST_F(TexelKernels, BehindTheLastRecordAreZero) {
  const auto out = texels(k32, kFloat, kOne, 4);
  EXPECT_EQ(out[61][0], memory_[61]);
  for (const uint32_t i : {62, 63}) EXPECT_EQ(out[i][0], 0u);
}

TEST_F(TexelKernels, MayHaveTheTypeOfTheInstruction) {
  put_all(kData, memory_);
  arguments(kData, kData, kOut);
  ASSERT_TRUE(runs("typed", {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
  const auto out = get_all<Row>(kOut, 64);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i][2], memory_[i] & 0xffff);
    EXPECT_EQ(out[i][3], memory_[i] >> 16);
  }
}

// To the nearest, up, down, and toward zero.
TEST_F(RareKernels, SumsAreRoundedAsModeAsks) {
  for (const int sign : {1, -1}) {
    const auto one = static_cast<float>(sign), tiny = std::ldexp(one, -30);
    const double wide_one = one, wide_tiny = std::ldexp(wide_one, -60);
    arguments(kData, kOut, one, tiny, wide_one, wide_tiny);
    ASSERT_TRUE(runs("rounded_sums", {.grid = {1, 1, 1}, .group = {1, 1, 1}}));
    const float past = std::nextafter(one, 2 * one);
    const double wide_past = std::nextafter(wide_one, 2 * wide_one);
    const bool up = sign > 0;
    EXPECT_EQ(get_all<float>(kData, 4), (std::vector{one, up ? past : one, up ? one : past, one}));
    EXPECT_EQ(get_all<double>(kOut, 4), (std::vector{wide_one, up ? wide_past : wide_one,
                                                     up ? wide_one : wide_past, wide_one}));
  }
}

}  // namespace
}  // namespace gpu::test
