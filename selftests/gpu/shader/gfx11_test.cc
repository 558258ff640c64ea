// SPDX-License-Identifier: GPL-2.0
// Kernels that are compiled for gfx1100, compared with the CPU, and with gfx90a, whose results
// other tests compare with the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "shader/kernel_machine.h"

namespace gpu::test {
namespace {

using ::testing::HasSubstr;

class Gfx11Kernels : public ::testing::Test {
 protected:
  void expect_done(const std::string& kernel, uint32_t groups, std::array<uint32_t, 3> group) {
    ASSERT_EQ(gpu_.run(kernel, groups, group), Dispatch::State::kDone) << gpu_.complaint();
  }
  template <typename T>
  std::vector<T> random(size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(engine_());
    return values;
  }

  Machine gpu_{"wave32.co", Isa::kGfx1100};
  std::mt19937_64 engine_{3};
};

TEST_F(Gfx11Kernels, LanesExchangeInAWaveOf32) {
  const auto in = random<uint32_t>(64);
  gpu_.put(kA, in);
  gpu_.arguments(kA, kOut);
  expect_done("lanes", 1, {64, 1, 1});
  const auto out = gpu_.get<std::array<uint32_t, 16>>(kOut, 64);
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t* wave = in.data() + i / 32 * 32;
    const uint32_t lane = i % 32, row = lane & 16;
    uint32_t above = 0, odd = 0;
    for (uint32_t k = 0; k < 32; ++k) {
      above |= uint32_t{wave[k] > 0x80000000} << k;
      odd |= (wave[k] & 1) << k;
    }
    const uint32_t nibble = lane & 15;
    const auto selected = [&](uint64_t selects) { return selects >> (4 * nibble) & 15; };
    const std::array<uint32_t, 13> expected = {wave[(i * 7 + 3) % 32],
                                               wave[0] + wave[17],
                                               above,
                                               lane,
                                               7,
                                               nibble ? wave[lane - 1] : 5,
                                               wave[row + 5],
                                               wave[lane ^ 3],
                                               wave[lane ^ 7],
                                               wave[row + selected(0x89abcdef76543210)],
                                               wave[(row ^ 16) + selected(0xfedcba9801234567)],
                                               wave[lane ^ 1],
                                               in[i] & 1 ? odd : 0};
    for (size_t k = 0; k < expected.size(); ++k) ASSERT_EQ(out[i][k], expected[k]) << i << " " << k;
  }
}

TEST_F(Gfx11Kernels, CarriesAreInHalfOfAMask) {
  const auto a = random<uint64_t>(96), b = random<uint64_t>(96);
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("carries", 1, {96, 1, 1});
  const auto out = gpu_.get<std::array<uint64_t, 4>>(kOut, 96);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(out[i][0], a[i] + b[i]);
    EXPECT_EQ(out[i][1], a[i] - b[i]);
    EXPECT_EQ(out[i][2], a[i] * b[i]);
    EXPECT_EQ(out[i][3], a[i] < b[i] ? a[i] >> (b[i] & 63) : b[i] << (a[i] & 63));
  }
}

TEST_F(Gfx11Kernels, SwapsThatCompareReplaceEqualNumbers) {
  const auto a = random<uint32_t>(64);
  gpu_.put(kA, a);
  gpu_.put(kB, a);
  gpu_.arguments(kA, kB, kOut);
  expect_done("exchange", 1, {64, 1, 1});
  const auto memory = gpu_.get<uint32_t>(kB, 64);
  const auto out = gpu_.get<std::array<uint32_t, 4>>(kOut, 64);
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t left = a[i] & 1 ? i : a[i];
    EXPECT_EQ(out[i][0], a[i]);
    EXPECT_EQ(out[i][1], a[i]);
    EXPECT_EQ(out[i][2], left);
    EXPECT_EQ(memory[i], left);
  }
}

TEST_F(Gfx11Kernels, BothHalvesReadBeforeEitherWrites) {
  const auto a = random<uint32_t>(32), b = random<uint32_t>(32);
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("dual", 1, {32, 1, 1});
  const auto out = gpu_.get<std::array<uint32_t, 8>>(kOut, 32);
  const auto same = [](uint32_t got, float wanted) {
    const auto number = std::bit_cast<float>(got);
    return wanted != wanted ? number != number : got == std::bit_cast<uint32_t>(wanted);
  };
  for (uint32_t i = 0; i < 32; ++i) {
    const auto x = std::bit_cast<float>(a[i]), y = std::bit_cast<float>(b[i]);
    EXPECT_EQ(out[i][0], b[i]);
    EXPECT_EQ(out[i][1], a[i]);
    EXPECT_TRUE(same(out[i][2], std::fma(0.75f, y, x + y))) << x << " " << y;
    EXPECT_EQ(out[i][3], (a[i] << 3) & 0xff);
    EXPECT_EQ(out[i][4], i < 16 ? (a[i] < b[i] ? b[i] : a[i]) : 1);
    if (i >= 16) {
      EXPECT_EQ(out[i][5], 2u);
    } else if (x == x && y == y) {
      EXPECT_TRUE(same(out[i][5], std::fmax(x, y)));
    }
  }
}

TEST_F(Gfx11Kernels, AResultOf16BitsLeavesTheOtherHalfAlone) {
  const auto a = random<uint32_t>(32), b = random<uint32_t>(32);
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("halves", 1, {32, 1, 1});
  const auto out = gpu_.get<std::array<uint32_t, 4>>(kOut, 32);
  const auto half = [](uint32_t bits) {
    return std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
  };
  const auto raw = [](_Float16 value) { return uint32_t{std::bit_cast<uint16_t>(value)}; };
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t x = a[i], y = b[i];
    const _Float16 sum = half(x >> 16) + half(y);
    if (sum == sum) {
      EXPECT_EQ(out[i][0], raw(sum) << 16 | ((raw(sum) ^ y >> 16) & 0xffff));
    }
    const auto rounded = static_cast<_Float16>(std::bit_cast<float>(y));
    if (rounded == rounded) {
      EXPECT_EQ(out[i][1], (raw(rounded) + y) << 16 | (x & 0xffff)) << std::hex << y;
    }
    const auto wide = std::bit_cast<uint32_t>(static_cast<float>(half(y >> 16)));
    if (half(y >> 16) == half(y >> 16)) {
      EXPECT_EQ(out[i][2], wide >> 16 < y >> 16 ? wide : x) << std::hex << y;
    }
  }
}

TEST_F(Gfx11Kernels, BytesOfAProductHaveSignsIfTheInstructionSaysSo) {
  const auto a = random<uint32_t>(32), b = random<uint32_t>(32);
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("dots", 1, {32, 1, 1});
  const auto out = gpu_.get<std::array<uint32_t, 4>>(kOut, 32);
  const auto part = [](uint32_t word, unsigned shift, bool has_sign) {
    return has_sign ? int32_t{static_cast<int8_t>(word >> shift)}
                    : int32_t{static_cast<uint8_t>(word >> shift)};
  };
  for (uint32_t i = 0; i < 32; ++i) {
    for (unsigned which = 0; which < 4; ++which) {
      uint32_t sum = a[i];
      for (unsigned shift = 0; shift < 32; shift += 8)
        sum +=
            static_cast<uint32_t>(part(a[i], shift, which < 2) * part(b[i], shift, which % 2 == 0));
      EXPECT_EQ(out[i][which], sum) << i << " " << which;
    }
  }
}

TEST_F(Gfx11Kernels, BitsOfAMaskAreCopiedAndGathered) {
  constexpr uint32_t kMask = 0x80f00412;
  gpu_.arguments(kMask, uint32_t{0}, kOut);
  expect_done("of_masks", 1, {32, 1, 1});
  EXPECT_EQ(gpu_.get<uint32_t>(kOut, 4),
            (std::vector<uint32_t>{0x0030030c, 0xc000ff00, 0xa7, 0xf0f00fff}));
}

TEST_F(Gfx11Kernels, AClassIsThatOfADenormalNumberAlsoIfTheyAreFlushed) {
  const auto in = random<uint32_t>(32);
  gpu_.put(kA, in);
  gpu_.arguments(kA, kOut);
  expect_done("tested_bits", 1, {32, 1, 1});
  const auto out = gpu_.get<uint32_t>(kOut, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], in[i] >> 7 & 1) << i;
}

// Halves are kept, also those that are denormal.
TEST_F(Gfx11Kernels, MixedSumsFlushDenormalsOf32Bits) {
  constexpr float kDenormal = 0x1p-130f, kSmallHalf = 0x1p-20f;
  const std::vector<uint32_t> a = {0, 0x3c003c00, 0x00100010, 0};
  const std::vector<float> b = {kDenormal, kDenormal, kDenormal, 2};
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("mixed", 1, {4, 1, 1});
  const auto out = gpu_.get<std::array<float, 2>>(kOut, 4);
  EXPECT_EQ(out[0], (std::array<float, 2>{0, 0}));
  EXPECT_EQ(out[1], (std::array<float, 2>{1, 1}));
  EXPECT_EQ(out[2], (std::array<float, 2>{kSmallHalf, kSmallHalf}));
  EXPECT_EQ(out[3], (std::array<float, 2>{2, 2}));
}

TEST_F(Gfx11Kernels, FusedOperationsAddToTheirDestination) {
  const std::vector<float> extremes = {9, 9, -9, -9};
  // Two small halves, as bits of a float that is small, too.
  std::vector<uint32_t> a(32), b(32);
  for (uint32_t i = 0; i < 32; ++i) {
    a[i] = (0x3c00 + i * 16) << 16 | (0xbc00 + i * 8);
    b[i] = i % 4 ? (0x3800 + i * 32) << 16 | (0x4000 + i) : 0;
  }
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.put(kB + 0x1000, extremes);
  gpu_.arguments(kA, kB, kB + 0x1000, kOut);
  expect_done("fused", 1, {32, 1, 1});
  const auto out = gpu_.get<std::array<uint32_t, 8>>(kOut, 32);
  const auto fma16 = [](uint32_t x, uint32_t y, uint32_t z) {
    const auto half = [](uint32_t bits) {
      return double{static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)))};
    };
    const auto sum = static_cast<_Float16>(std::fma(half(x), half(y), half(z)));
    return uint32_t{std::bit_cast<uint16_t>(sum)};
  };
  std::vector<float> bounds = extremes;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t x = a[i], y = b[i], low = fma16(x, y, x), top = x & 0xffff0000;
    EXPECT_EQ(out[i][0], top | low);
    EXPECT_EQ(out[i][1], fma16(x >> 16, y >> 16, x >> 16) << 16 | low);
    const auto f = std::bit_cast<float>(x), g = std::bit_cast<float>(y);
    EXPECT_EQ(out[i][2], std::bit_cast<uint32_t>(std::fma(f, g, f)));
    EXPECT_EQ(out[i][3], top | fma16(x, y, 0x3e00));
    EXPECT_EQ(out[i][4], top | fma16(x, 0x3e00, y));
    bounds[i % 2] = std::min(bounds[i % 2], f);
    bounds[2 + i % 2] = std::max(bounds[2 + i % 2], f);
  }
  EXPECT_EQ(gpu_.get<float>(kB + 0x1000, 4), bounds);
}

TEST_F(Gfx11Kernels, AnInstructionThatIsNotModelledStopsTheWave) {
  gpu_.arguments(kOut);
  EXPECT_EQ(gpu_.run("unknown", 1, {32, 1, 1}), Dispatch::State::kIllegal);
  EXPECT_THAT(gpu_.complaint(), HasSubstr("v_mullit_f32 is not modelled"));
  EXPECT_EQ(gpu_.get<uint32_t>(kOut, 1)[0], 1u);
}

// A product of matrices by waves of both widths, of numbers that no order of the sums rounds.
class MatrixKernels : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr unsigned kSize = 16, kWords = 8;
  // element(word, k) of a row of a, or of a column of b.
  template <typename Element>
  std::vector<int32_t> expected(Element of_a, Element of_b) const {
    std::vector<int32_t> out = c_;
    for (unsigned row = 0; row < kSize; ++row) {
      for (unsigned column = 0; column < kSize; ++column) {
        for (unsigned k = 0; k < kSize; ++k)
          out[row * kSize + column] += of_a(&a_[row * kWords], k) * of_b(&b_[column * kWords], k);
      }
    }
    return out;
  }
  void fill(const std::function<uint32_t()>& word) {
    for (auto* matrix : {&a_, &b_}) std::ranges::generate(*matrix, word);
    std::ranges::generate(c_, [&] { return static_cast<int32_t>(engine_() % 2001) - 1000; });
  }
  template <typename T>
  std::vector<T> product(const std::string& kernel, const std::vector<T>& c) {
    gpu_.put(kA, a_);
    gpu_.put(kB, b_);
    gpu_.put(kC, c);
    gpu_.arguments(kA, kB, kC, kOut);
    EXPECT_EQ(gpu_.run(kernel, 1, {GetParam(), 1, 1}), Dispatch::State::kDone) << gpu_.complaint();
    return gpu_.get<T>(kOut, kSize * kSize);
  }
  // Two small whole numbers as floats of 16 bits.
  uint32_t float_pair(bool bfloat) {
    uint32_t word = 0;
    for (unsigned shift = 0; shift < 32; shift += 16) {
      const auto value = static_cast<float>(static_cast<int>(engine_() % 17) - 8);
      word |= (bfloat ? std::bit_cast<uint32_t>(value) >> 16
                      : uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(value))})
              << shift;
    }
    return word;
  }
  static int32_t half_at(const uint32_t* words, unsigned k) {
    const auto half = static_cast<uint16_t>(words[k / 2] >> 16 * (k % 2));
    return static_cast<int32_t>(std::bit_cast<_Float16>(half));
  }
  static int32_t bfloat_at(const uint32_t* words, unsigned k) {
    return static_cast<int32_t>(std::bit_cast<float>(words[k / 2] >> 16 * (k % 2) << 16));
  }
  static int32_t byte_at(const uint32_t* words, unsigned k) {
    return static_cast<int8_t>(words[k / 4] >> 8 * (k % 4));
  }
  static int32_t unsigned_byte_at(const uint32_t* words, unsigned k) {
    return static_cast<uint8_t>(words[k / 4] >> 8 * (k % 4));
  }
  static int32_t nibble_at(const uint32_t* words, unsigned k) {
    return static_cast<int32_t>(words[k / 8] << (28 - 4 * (k % 8))) >> 28;
  }

  static constexpr uint64_t kC = kB + 0x10000;
  Machine gpu_{GetParam() == 32 ? "wmma.co" : "wmma64.co", Isa::kGfx1100};
  std::mt19937 engine_{9};
  std::vector<uint32_t> a_ = std::vector<uint32_t>(kSize * kWords), b_ = a_;
  std::vector<int32_t> c_ = std::vector<int32_t>(kSize * kSize);
};

TEST_P(MatrixKernels, MultiplyFloats) {
  for (const bool bfloat : {false, true}) {
    fill([&] { return float_pair(bfloat); });
    const auto element = bfloat ? bfloat_at : half_at;
    const auto sums = expected(element, element);
    EXPECT_EQ(product(bfloat ? "f32_bf16" : "f32_f16", std::vector<float>(c_.begin(), c_.end())),
              std::vector<float>(sums.begin(), sums.end()));
  }
}

TEST_P(MatrixKernels, MultiplyIntegers) {
  fill([&] { return static_cast<uint32_t>(engine_()); });
  EXPECT_EQ(product("i32_i8", c_), expected(byte_at, byte_at));
  EXPECT_EQ(product("i32_u8_i8", c_), expected(unsigned_byte_at, byte_at));
  EXPECT_EQ(product("i32_i4", c_), expected(nibble_at, nibble_at));
}

TEST_P(MatrixKernels, ClampedSumsAreSaturated) {
  fill([&] { return static_cast<uint32_t>(engine_()); });
  std::ranges::fill(c_, 0);
  std::vector<int32_t> wanted = expected(byte_at, byte_at), c = c_;
  for (size_t i = 0; i < c.size(); ++i) {
    const int64_t sum = wanted[i] + int64_t{c[i] = i % 2 ? INT32_MAX - 100 : INT32_MIN + 100};
    wanted[i] = static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
  EXPECT_EQ(product("i32_i8_clamp", c), wanted);
}

TEST_P(MatrixKernels, ResultsOf16BitsLeaveTheOtherHalvesAlone) {
  fill([&] { return float_pair(false); });
  const auto bits_of = [](int32_t value) {
    return uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(value))};
  };
  std::vector<uint32_t> words(c_.size()), wanted;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = bits_of(c_[i]) << 16 | static_cast<uint32_t>(i * 251);
  const auto sums = expected(half_at, half_at);
  for (size_t i = 0; i < words.size(); ++i)
    wanted.push_back(bits_of(sums[i]) << 16 | (words[i] & 0xffff));
  EXPECT_EQ(product("f16_f16", words), wanted);
}

INSTANTIATE_TEST_SUITE_P(Widths, MatrixKernels, ::testing::Values(32u, 64u));

// Kernels with the same results on both instruction sets.
struct Kernel {
  const char* object;
  const char* name;
  uint32_t groups;
  std::array<uint32_t, 3> group;
  std::vector<uint32_t> arguments;  // doublewords
};

class BothInstructionSets : public ::testing::TestWithParam<Kernel> {
 protected:
  static constexpr size_t kWords = 0x20000;

  // NaNs of floats are equal: their payload depends on the order of the operands.
  static bool same(uint32_t a, uint32_t b) {
    const auto x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    return a == b || (x != x && y != y);
  }
  std::vector<uint32_t> results(Isa isa) {
    const Kernel& kernel = GetParam();
    Machine gpu(kernel.object, isa);
    std::mt19937 engine{5};
    std::vector<uint32_t> data(kWords);
    for (uint32_t& word : data) word = static_cast<uint32_t>(engine());
    gpu.put(kA, data);
    gpu.put(kKernarg, kernel.arguments);
    EXPECT_EQ(gpu.run(kernel.name, kernel.groups, kernel.group), Dispatch::State::kDone)
        << gpu.complaint();
    return gpu.get<uint32_t>(kA, kWords + (kOut - kA) / 4);
  }
};

TEST_P(BothInstructionSets, HaveTheSameResults) {
  const auto expected = results(Isa::kGfx90a), found = results(Isa::kGfx1100);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_TRUE(same(expected[i], found[i]))
        << i << std::hex << " " << expected[i] << " " << found[i];
}

constexpr uint32_t kA32 = kA, kB32 = kA + 0x20000, kOut32 = kOut;
INSTANTIATE_TEST_SUITE_P(
    Kernels, BothInstructionSets,
    ::testing::Values(
        Kernel{"basic.co", "vector_add", 4, {256, 1, 1}, {kA32, 0, kB32, 0, kOut32, 0, 1000}},
        Kernel{"basic.co", "blit_copy", 1, {128, 1, 1}, {kA32, 0, kOut32, 0, 200, 3213}},
        Kernel{"basic.co", "reduce", 5, {256, 1, 1}, {kA32, 0, kOut32, 0, 5000}},
        Kernel{"basic.co", "matrix_multiply", 2, {16, 16, 1}, {kA32, 0, kB32, 0, kOut32, 0, 32}},
        Kernel{"basic.co", "histogram", 4, {256, 1, 1}, {kA32, 0, kOut32, 0, 3000}},
        Kernel{"basic.co", "philox", 4, {256, 1, 1}, {kOut32, 0, 0xcafe, 0xf00d}},
        Kernel{"basic.co", "private_memory", 2, {256, 1, 1}, {kA32, 0, 40}},
        Kernel{"basic.co", "churn", 3, {256, 1, 1}, {kA32, 0, 20}},
        Kernel{"numbers.co", "floats", 64, {64, 1, 1}, {kA32, 0, kB32, 0, kOut32, 0}},
        Kernel{"numbers.co", "doubles", 32, {64, 1, 1}, {kA32, 0, kB32, 0, kOut32, 0}},
        Kernel{"numbers.co", "integers", 64, {64, 1, 1}, {kA32, 0, kB32, 0, kOut32, 0}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gpu::test
