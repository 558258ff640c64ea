// SPDX-License-Identifier: GPL-2.0
// What gfx942 adds, except matrices, compared with the same computation on the CPU.
#include <gmock/gmock.h>

#include "shader/rare_kernels.h"

namespace gpu::test {
namespace {

using shader::Float8;
using shader::half_to_float;
using shader::to_half;

class Rare942Kernels : public RareKernels {
 protected:
  Rare942Kernels() : RareKernels("rare942.co", mi300x_small()) {}
};

float fp8(uint32_t byte) { return shader::float8_to_float(Float8::kFp8, byte & 0xff); }
float bf8(uint32_t byte) { return shader::float8_to_float(Float8::kBf8, byte & 0xff); }

TEST(Floats, OfEightBitsHaveTheirValues) {
  EXPECT_EQ(fp8(0x40), 1.0f);
  EXPECT_EQ(fp8(0x41), 1.125f);
  EXPECT_EQ(fp8(0xff), -240.0f);
  EXPECT_EQ(fp8(1), 0x1p-10f);
  EXPECT_EQ(bf8(0x40), 1.0f);
  EXPECT_EQ(bf8(0x7f), 57344.0f);
  EXPECT_EQ(bf8(0x81), -0x1p-17f);
  EXPECT_TRUE(std::isnan(fp8(0x80)) && std::isnan(bf8(0x80)));
  // Every number is its own nearest one, and those between two go to the even one.
  for (const Float8 type : {Float8::kFp8, Float8::kBf8}) {
    for (uint32_t byte = 0; byte < 0x7f; ++byte) {
      const float value = shader::float8_to_float(type, byte);
      const float next = shader::float8_to_float(type, byte + 1);
      EXPECT_EQ(shader::to_float8(type, value), byte);
      EXPECT_EQ(shader::to_float8(type, (value + next) / 2), byte + (byte & 1));
      EXPECT_EQ(shader::to_float8(type, -next), byte + 1 + 0x80);
    }
  }
  EXPECT_EQ(shader::to_float8(Float8::kFp8, 247), 0x7fu);
  EXPECT_EQ(shader::to_float8(Float8::kFp8, 248), 0x80u);
  EXPECT_EQ(shader::to_float8(Float8::kFp8, -0x1p-12f), 0u);
}

TEST_F(Rare942Kernels, FloatsOfEightBits) {
  const auto a = random(512);
  std::vector<float> b(512);
  for (float& value : b) value = std::ldexp(static_cast<float>(engine_() % 2001) - 1000, -9);
  std::vector<uint32_t> b_bits(512);
  std::ranges::transform(b, b_bits.begin(), [](float v) { return std::bit_cast<uint32_t>(v); });
  const auto out = run_on("bytes", a, b_bits);
  const auto expect = [](uint32_t got, float wanted) {
    if (std::isnan(wanted)) return std::isnan(std::bit_cast<float>(got));
    return std::bit_cast<float>(got) == wanted;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i];
    ASSERT_TRUE(expect(out[i][0], fp8(x)));
    ASSERT_TRUE(expect(out[i][1], bf8(x >> 24)));
    ASSERT_TRUE(expect(out[i][2], fp8(x >> 16)));
    ASSERT_TRUE(expect(out[i][3], fp8(x >> 24)));
    ASSERT_TRUE(expect(out[i][4], bf8(x)));
    ASSERT_TRUE(expect(out[i][5], bf8(x >> 8)));
    const auto pair = [&](Float8 type, float second) {
      return shader::to_float8(type, b[i]) | shader::to_float8(type, second) << 8;
    };
    ASSERT_EQ(out[i][6], (x & 0xffff0000) | pair(Float8::kFp8, -b[i ^ 1]));
    ASSERT_EQ(out[i][7], (x & 0xffff) | pair(Float8::kBf8, b[i ^ 1]) << 16);
  }
}

// In units of the last bit that a result of this size has, a fraction of the high bits of the
// random number is added.
uint32_t at_random(Float8 type, double value, uint32_t random, bool saturates = false) {
  if (!std::isfinite(value)) return 0x80;
  const int fraction = type == Float8::kFp8 ? 3 : 2, smallest = type == Float8::kFp8 ? -7 : -15;
  const int exponent = std::max(value == 0 ? smallest : std::ilogb(value), smallest);
  // What is kept of the value: 23 bits behind the first one, or behind that of the smallest normal.
  const double unit = std::ldexp(1, exponent - 23);
  const double kept = std::floor(std::fabs(value) / unit);
  const double added = std::floor(std::ldexp(random, -32) * std::ldexp(1, 23 - fraction));
  const double sum =
      std::ldexp(std::floor(std::ldexp(kept + added, fraction - 23)), exponent - fraction);
  const uint32_t sign = value < 0 && sum != 0 ? 0x80 : 0;
  const double largest = type == Float8::kFp8 ? 240 : 57344;
  if (sum > largest) return saturates ? sign | 0x7f : 0x80;
  return sign | shader::to_float8(type, static_cast<float>(sum));
}

TEST_F(Rare942Kernels, FloatsOfEightBitsAreRoundedAtRandom) {
  auto a = random(4096);
  const auto b = random(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto exponent = static_cast<int>(i % 40) - 22;
    const float value = std::ldexp(1 + static_cast<float>(a[i] >> 9) * 0x1p-23f, exponent);
    a[i] = std::bit_cast<uint32_t>(i & 64 ? -value : value);
  }
  a[100] = 0x7f800000, a[200] = 0xff800000, a[300] = 0x7fc00000, a[400] = 0x80000000;
  const auto out = run_on("random_bytes", a, b);
  const auto placed = [](uint32_t old, uint32_t byte, unsigned shift) {
    return (old & ~(0xffu << shift)) | byte << shift;
  };
  const auto nearest = [](Float8 type, double value) {
    const double largest = type == Float8::kFp8 ? 240 : 57344;
    const double limited = std::isinf(value) ? value : std::clamp(value, -largest, largest);
    return std::isfinite(value) ? shader::to_float8(type, static_cast<float>(limited)) : 0x80;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = std::bit_cast<float>(a[i]);
    const uint32_t old = b[i ^ 1];
    using enum Float8;
    ASSERT_EQ(out[i][0], placed(old, at_random(kFp8, x, b[i]), 0)) << x << " " << b[i];
    ASSERT_EQ(out[i][1], placed(old, at_random(kBf8, -x, b[i]), 8)) << x << " " << b[i];
    ASSERT_EQ(out[i][2], placed(old, at_random(kFp8, x, 0), 16)) << x;
    ASSERT_EQ(out[i][3], placed(old, at_random(kBf8, x, ~0u), 24)) << x;
    ASSERT_EQ(out[i][4], placed(old, at_random(kFp8, x, b[i], true), 0)) << x << " " << b[i];
    ASSERT_EQ(out[i][5], placed(old, at_random(kBf8, x, b[i], true), 0)) << x << " " << b[i];
    ASSERT_EQ(out[i][6] & 0xffff, nearest(kFp8, x) | nearest(kFp8, -x) << 8) << x;
    ASSERT_EQ(out[i][7] & 0xffff, nearest(kBf8, x) | nearest(kBf8, -x) << 8) << x;
  }
}

// The fourth value is in memory after three sums, or in LDS after two.
void expect_sums(const std::array<uint32_t, 8>& out, uint32_t a, uint32_t b, auto sum) {
  const uint32_t once = sum(a, b), twice = sum(once, b);
  ASSERT_EQ(out[1], once);
  ASSERT_EQ(out[2], twice);
  ASSERT_EQ(out[3], once);
  ASSERT_EQ(out[4], twice);
}

TEST_F(Rare942Kernels, PairsAreAddedInMemory) {
  const auto a = finite_halves(random(256)), b = finite_halves(random(256));
  const auto halves = run_on("sums_f16", a, b), bfloats = run_on("sums_bf16", a, b);
  const auto sum_of_halves = [](uint32_t x, uint32_t y) {
    const auto half = [&](unsigned shift) {
      return to_half(half_to_float(x >> shift & 0xffff) + half_to_float(y >> shift & 0xffff));
    };
    return half(0) | half(16) << 16;
  };
  const auto sum_of_bfloats = [](uint32_t x, uint32_t y) {
    const auto half = [&](unsigned shift) {
      const float sum =
          std::bit_cast<float>(x >> shift << 16) + std::bit_cast<float>(y >> shift << 16);
      const auto bits = std::bit_cast<uint32_t>(sum);
      const uint32_t rest = bits & 0xffff, kept = bits >> 16;
      return kept + (rest > 0x8000 || (rest == 0x8000 && kept & 1));
    };
    return half(0) | half(16) << 16;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    expect_sums(halves[i], a[i], b[i], sum_of_halves);
    expect_sums(bfloats[i], a[i], b[i], sum_of_bfloats);
  }
}

TEST_F(Rare942Kernels, LoadsIntoLdsHaveADoublewordOfEachLane) {
  const auto a = random(128);
  const auto out = run_on("loads_to_lds", {a.begin(), a.begin() + 64}, a);
  for (uint32_t lane = 0; lane < 128; ++lane) {
    const uint32_t got = out[lane % 64][lane / 64];
    // From 16 doublewords of M0 and 8 of the offset on, which counts for memory, too.
    const bool loaded = lane >= 24 && lane < 88;
    const uint32_t from = ((lane - 24) ^ 5) + 8;
    ASSERT_EQ(got, loaded && from < 64 ? a[from] : 0) << lane;
  }
}

TEST_F(Rare942Kernels, BytesAndShortsAreExtendedInLds) {
  const auto a = random(64);
  const auto memory = [&](uint32_t at, uint32_t bytes) {
    uint32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(a.data()) + at, bytes);
    return value;
  };
  const auto ubytes = run_on("ubytes_to_lds", a, a), sbytes = run_on("sbytes_to_lds", a, a);
  const auto ushorts = run_on("ushorts_to_lds", a, a), sshorts = run_on("sshorts_to_lds", a, a);
  const auto buffer = run_on("buffer_to_lds", a, a);
  for (uint32_t lane = 0; lane < 64; ++lane) {
    // The offset counts for memory and for LDS.
    const uint32_t from = 2 * ((lane + 61) % 64 ^ 5) + 12;
    const auto loaded = [&](uint32_t value) { return lane < 3 ? 0x55555555 : value; };
    ASSERT_EQ(ubytes[lane][0], loaded(memory(from, 1))) << lane;
    ASSERT_EQ(sbytes[lane][0], loaded(static_cast<uint32_t>(i32(memory(from, 1) << 24) >> 24)));
    ASSERT_EQ(ushorts[lane][0], loaded(memory(from, 2))) << lane;
    ASSERT_EQ(sshorts[lane][0], loaded(static_cast<uint32_t>(i16(memory(from, 2)))));
    const uint32_t at = 2 * (lane ^ 5);
    ASSERT_EQ(buffer[lane][0], at < 100 ? static_cast<uint32_t>(i16(memory(at, 2))) : 0) << lane;
  }
}

}  // namespace
}  // namespace gpu::test
