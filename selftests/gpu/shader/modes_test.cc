// SPDX-License-Identifier: GPL-2.0
// Modes of floats of 16 bits and of pairs: roundings, and denormals that count as zero.
#include <gmock/gmock.h>

#include <cfenv>

#include "shader/rare_kernels.h"

namespace gpu::test {
namespace {

using shader::half_to_float;

// A number between two halves becomes the one that the mode names. All numbers here are exact.
enum class Round : uint8_t { kNearest, kUp, kDown, kTowardZero };

double magnitude_of(uint32_t half) {
  const uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ff;
  return exponent ? std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25)
                  : std::ldexp(fraction, -24);
}
uint32_t rounded_half(double exact, Round round) {
  if (std::isnan(exact)) return 0x7e00;
  const uint32_t sign = std::signbit(exact) ? 0x8000 : 0;
  const double magnitude = std::fabs(exact);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  // The largest half that is not larger, by its bits from the highest on.
  uint32_t below = 0;
  for (uint32_t bit = 1 << 14; bit; bit >>= 1)
    if ((below | bit) < 0x7c00 && magnitude_of(below | bit) <= magnitude) below |= bit;
  const double low = magnitude_of(below), high = magnitude_of(below + 1);
  const double rest = magnitude - low, gap = high - low;
  const bool nearer = rest > gap / 2 || (rest == gap / 2 && below & 1);
  const bool away = round == Round::kNearest ? nearer
                    : round == Round::kUp    ? rest > 0 && !sign
                    : round == Round::kDown  ? rest > 0 && sign
                                             : false;
  return sign | (below + away);
}

struct HalfModes {
  const char* kernel;
  Round round = Round::kNearest;
  bool flush_in = false, flush_out = false, saturates = false;
  bool in_descriptor = false;  // that they saturate
};

void PrintTo(const HalfModes& one, std::ostream* out) { *out << one.kernel; }

class ModeKernels : public RareKernels {
 protected:
  ModeKernels() : RareKernels("modes.co") {}
  // Some are denormal, and some near the largest number. Exponents are near enough to each other
  // for exact sums of products.
  std::vector<uint32_t> numbers(size_t count) {
    auto values = finite_halves(random(count));
    for (size_t i = 0; i < count; i += 4) values[i] &= 0x83ff83ff;
    for (size_t i = 1; i < count; i += 8) values[i] |= 0x70007000;
    return finite_halves(values);
  }
};

class HalfModesTest : public ModeKernels, public testing::WithParamInterface<HalfModes> {
 protected:
  double input(uint32_t half) const {
    half &= 0xffff;
    if (GetParam().flush_in && !(half & 0x7c00)) half &= 0x8000;
    return double{half_to_float(half)};
  }
  uint32_t result(double exact) const {
    const uint32_t half = rounded_half(exact, GetParam().round);
    if (GetParam().saturates && (half & 0x7fff) == 0x7c00 && !std::isinf(exact)) return half - 1;
    return GetParam().flush_out && !(half & 0x7c00) ? half & 0x8000 : half;
  }
};

TEST_P(HalfModesTest, OfSumsProductsAndConversions) {
  const auto a = numbers(4096), b = numbers(4096);
  constexpr uint64_t kRsrc1 = 48, kFp16Ovfl = 1 << 26;
  const uint64_t word = object_of(GetParam().kernel) + kRsrc1;
  if (GetParam().in_descriptor) put<uint32_t>(word, get<uint32_t>(word) | kFp16Ovfl);
  const auto out = run_on(GetParam().kernel, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = input(a[i]), y = input(b[i]), x2 = input(a[i] >> 16), y2 = input(b[i] >> 16);
    const uint32_t sum = result(x + y), sum2 = result(x2 + y2);
    // The sign of an exact zero depends on the rounding.
    const bool cancels = x + y == 0;
    ASSERT_EQ(out[i][0] & (cancels ? 0x7fff : 0xffff), cancels ? 0 : sum) << x << " " << y;
    ASSERT_EQ(out[i][1], result(x * y)) << x << " " << y;
    const double wide = std::bit_cast<float>(b[i ^ 1]);
    if (!std::isnan(wide)) ASSERT_EQ(out[i][2], result(wide)) << wide;
    if (!cancels && x2 + y2 != 0) ASSERT_EQ(out[i][3], sum | sum2 << 16);
    ASSERT_EQ(out[i][4], result(x * y) | result(x2 * y2) << 16);
    ASSERT_EQ(std::bit_cast<float>(out[i][7]), static_cast<float>(x));
    // One is added, unless the product is too small for a sum in 53 bits.
    const auto exact = [](double p) { return p == 0 || std::fabs(p) >= 0x1p-30; };
    if (exact(x * y) && x * y != -1) ASSERT_EQ(out[i][5], result(x * y + 1)) << x << " " << y;
    if (exact(x * y) && exact(x2 * y2) && x * y != -1 && x2 * y2 != -1)
      ASSERT_EQ(out[i][6], result(x * y + 1) | result(x2 * y2 + 1) << 16);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HalfModesTest,
    testing::Values(HalfModes{.kernel = "halves_up", .round = Round::kUp},
                    HalfModes{.kernel = "halves_down", .round = Round::kDown},
                    HalfModes{.kernel = "halves_toward_zero", .round = Round::kTowardZero},
                    HalfModes{.kernel = "halves_flushed", .flush_in = true, .flush_out = true},
                    HalfModes{.kernel = "halves_flushed_in", .flush_in = true},
                    HalfModes{.kernel = "halves_flushed_out", .flush_out = true},
                    HalfModes{.kernel = "halves_saturated", .saturates = true},
                    HalfModes{.kernel = "halves_up",
                              .round = Round::kUp,
                              .saturates = true,
                              .in_descriptor = true}),
    [](const auto& info) {
      return std::string(info.param.kernel) + (info.param.in_descriptor ? "_in_descriptor" : "");
    });

// Numbers of all sizes and infinities: those stay if a source is infinite.
TEST_F(ModeKernels, OverflowsBecomeTheLargestHalf) {
  auto a = numbers(1024), b = numbers(1024);
  for (size_t i = 0; i < a.size(); i += 5) a[i] = i & 8 ? 0x7c00fc00 : 0x80000000;
  for (size_t i = 2; i < a.size(); i += 5) a[i] = 0x7f800000;
  const auto out = run_on("saturated", a, b);
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto half = [](double exact, bool infinite) {
    const uint32_t rounded = rounded_half(exact, Round::kNearest);
    return rounded - ((rounded & 0x7fff) == 0x7c00 && !infinite);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const double wide = number(a[i]), other = number(b[i]);
    const bool infinite = std::isinf(wide) || std::isinf(other);
    if (!std::isnan(wide * other))
      ASSERT_EQ(out[i][0] & 0xffff, half(static_cast<float>(wide * other + 0.0), infinite)) << wide;
    const double x = double{half_to_float(a[i] & 0xffff)}, y = double{half_to_float(b[i] & 0xffff)};
    if (!std::isnan(x * y)) ASSERT_EQ(out[i][1] >> 16, half(x * y + 0.0, std::isinf(x)));
    ASSERT_EQ(out[i][2], half(1 / x, std::isinf(x))) << x;
    ASSERT_EQ(out[i][3], half(4 * x + 0.0, std::isinf(x))) << x;
  }
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> out(values.size());
  std::ranges::transform(values, out.begin(), [](float v) { return std::bit_cast<uint32_t>(v); });
  return out;
}

class PairModesTest : public ModeKernels,
                      public testing::WithParamInterface<std::pair<const char*, int>> {};

// Sums of 24 bits and products of 48 are exact in doubles of near exponents.
TEST_P(PairModesTest, RoundEachOfTheTwoFloats) {
  std::vector<float> a(512), b(512);
  for (auto* values : {&a, &b})
    for (float& value : *values)
      value = std::ldexp(static_cast<float>(engine_() >> 8) * (engine_() & 1 ? 1.0f : -1.0f),
                         static_cast<int>(engine_() % 4) - 24);
  const auto out = run_on(GetParam().first, bits_of(a), bits_of(b));
  const auto rounded = [&](double exact) {
    std::fesetround(GetParam().second);
    const volatile auto result = static_cast<float>(exact);
    std::fesetround(FE_TONEAREST);
    return std::bit_cast<uint32_t>(float{result});
  };
  for (size_t i = 0; i < a.size(); ++i) {
    for (const size_t half : {0, 1}) {
      const double x = a[i ^ half], y = b[i ^ half];
      ASSERT_EQ(out[i][half], rounded(x + y));
      ASSERT_EQ(out[i][2 + half], rounded(x * y));
      ASSERT_EQ(out[i][4 + half], rounded(x * y + (half ? y : -y)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PairModesTest,
                         testing::Values(std::pair{"pairs_up", FE_UPWARD},
                                         std::pair{"pairs_down", FE_DOWNWARD},
                                         std::pair{"pairs_toward_zero", FE_TOWARDZERO}),
                         [](const auto& info) { return std::string(info.param.first); });

float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? 0 * value : value; }

TEST_F(ModeKernels, PairsOfFloatsFlushDenormals) {
  std::vector<float> a(512), b(512);
  for (auto* values : {&a, &b})
    for (float& value : *values)
      value = std::ldexp(static_cast<float>(engine_() >> 8) * (engine_() & 1 ? 1.0f : -1.0f),
                         static_cast<int>(engine_() % 30) - 160);
  for (size_t i = 0; i < a.size(); i += 3) a[i] = std::ldexp(a[i], 120);
  const auto out = run_on("pairs_flushed", bits_of(a), bits_of(b));
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  unsigned flushes = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (const size_t half : {0, 1}) {
      const float x = flushed(a[i ^ half]), y = flushed(b[i ^ half]);
      ASSERT_EQ(number(out[i][half]), flushed(x + y));
      ASSERT_EQ(number(out[i][2 + half]), flushed(x * y));
      ASSERT_EQ(number(out[i][4 + half]), flushed(std::fma(x, y, half ? y : -y)));
      flushes += x != a[i ^ half];
    }
  }
  EXPECT_GT(flushes, 100u);
}

// With IEEE clear a NaN of any kind loses against a number.
TEST_F(ModeKernels, MinimumAndMaximumIgnoreSignalingNans) {
  std::vector<uint32_t> a(256), b(256);
  const uint32_t numbers[] = {0x40001234, 0xc0004321, 0x7fa07d01, 0x3f003800,
                              0xffa0fd01, 0x7fe07e01, 0x7ff47d01};
  for (size_t i = 0; i < a.size(); ++i) a[i] = numbers[i % 7], b[i] = numbers[i / 7 % 7];
  const auto out = run_on("picked", a, b);
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto wide = [](uint32_t bits) { return std::bit_cast<double>(join(1u, bits)); };
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = number(a[i]), y = number(b[i]);
    // A double may be a NaN, too.
    const uint32_t larger = std::isnan(wide(a[i]))    ? b[i]
                            : std::isnan(wide(b[i]))  ? a[i]
                            : wide(a[i]) < wide(b[i]) ? b[i]
                                                      : a[i];
    ASSERT_EQ(out[i][4], larger) << i;
    // The halves of these words are NaNs where the words are.
    if (std::isnan(x) && std::isnan(y)) {
      ASSERT_TRUE(std::isnan(number(out[i][0])) && std::isnan(number(out[i][1])));
      ASSERT_EQ(number(out[i][3]), 1.0f);
      continue;
    }
    const bool first = std::isnan(y) || (!std::isnan(x) && x < y);
    ASSERT_EQ(out[i][0], first ? a[i] : b[i]) << i;
    const bool second = std::isnan(x) || (!std::isnan(y) && x < y);
    ASSERT_EQ(out[i][1], second ? b[i] : a[i]) << i;
    ASSERT_EQ(out[i][2], out[i][0]) << i;
    if (std::isnan(x) || std::isnan(y)) {
      ASSERT_EQ(number(out[i][3]), std::min(number(out[i][0]), 1.0f)) << i;
      ASSERT_EQ(out[i][5], std::isnan(x) ? b[i] : a[i]) << i;
      ASSERT_EQ(out[i][6], (std::isnan(x) ? b[i] : a[i]) & 0xffff) << i;
    }
  }
}

TEST_F(ModeKernels, MixesOfWidthsFlushTheDenormalsOfEach) {
  const auto a = numbers(1024), b = numbers(1024);
  const auto out = run_on("mixes_flushed", a, b);
  const auto half = [](uint32_t word) {
    return word & 0x7c00 ? half_to_float(word & 0xffff) : word & 0x8000 ? -0.0f : 0.0f;
  };
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = half(a[i]), y = half(b[i]), wide = flushed(number(a[i]));
    ASSERT_EQ(number(out[i][0]), flushed(std::fma(x, y, wide)));
    uint32_t product = rounded_half(double{x} * double{y}, Round::kNearest);
    if (!(product & 0x7c00)) product &= 0x8000;
    if (product & 0x7fff) {
      ASSERT_EQ(out[i][1], (a[i] & 0xffff0000) | product) << x << " " << y;
      ASSERT_EQ(out[i][2], (a[i] & 0xffff) | product << 16) << x << " " << y;
    }
    const float first = flushed(std::fma(x, y, wide));
    ASSERT_EQ(number(out[i][3]), flushed(std::fma(half(a[i] >> 16), half(b[i] >> 16), first)));
  }
}

}  // namespace
}  // namespace gpu::test
