// SPDX-License-Identifier: GPL-2.0
// Instructions of gfx11 that few kernels have, compared with the same computation on the CPU.
#include <gmock/gmock.h>

#include <random>

#include "shader/kernel_machine.h"

namespace gpu::test {
namespace {

class RareGfx11Kernels : public ::testing::Test {
 protected:
  void expect_done(const std::string& kernel) {
    ASSERT_EQ(gpu_.run(kernel, 1, {32, 1, 1}), Dispatch::State::kDone) << gpu_.complaint();
  }
  std::vector<uint32_t> random(size_t count) {
    std::vector<uint32_t> values(count);
    for (uint32_t& value : values) value = engine_();
    return values;
  }

  Machine gpu_{"rare11.co", Isa::kGfx1100};
  std::mt19937 engine_{3};
};

TEST_F(RareGfx11Kernels, LanesAreComparedWithOthers) {
  const auto in = random(32);
  gpu_.put(kA, in);
  gpu_.arguments(kA, kOut);
  expect_done("compared_lanes");
  uint32_t mask = 0, mask_of_floats = 0;
  const auto number = [&](uint32_t lane) { return std::bit_cast<float>(in[lane]); };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    mask |= uint32_t{in[lane ^ 3] > in[lane]} << lane;
    mask_of_floats |= uint32_t{-number(lane ^ 1) < number(lane)} << lane;
  }
  const auto out = gpu_.get<std::array<uint32_t, 4>>(kOut, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    ASSERT_EQ(out[lane][0], mask);
    ASSERT_EQ(out[lane][1], mask_of_floats);
    // The second operand where the mask has a bit; in the second row only.
    const uint32_t from = lane < 16 || lane % 8 < 4 ? lane : lane ^ 1;
    ASSERT_EQ(out[lane][2], (in[lane] & 0xffff0000) | (in[from] & 0xffff)) << lane;
  }
}

TEST_F(RareGfx11Kernels, FloatsBecomePairsOfIntegers) {
  std::vector<float> a(32), b(32);
  for (auto* values : {&a, &b})
    for (float& value : *values) value = static_cast<float>(engine_() % 200000) - 100000.5f;
  a[1] = 0.5f, a[2] = -0.25f, a[3] = std::numeric_limits<float>::quiet_NaN(), a[4] = 32767.9f;
  gpu_.put(kA, a);
  gpu_.put(kB, b);
  gpu_.arguments(kA, kB, kOut);
  expect_done("packed_integers");
  const auto out = gpu_.get<std::array<uint32_t, 4>>(kOut, 32);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto integer = [](float value, float smallest, float largest) {
      const float limited = std::isnan(value) ? 0 : std::clamp(value, smallest, largest);
      return static_cast<uint32_t>(static_cast<int32_t>(limited)) & 0xffff;
    };
    const auto pair = [&](float smallest, float largest) {
      return integer(a[i], smallest, largest) | integer(b[i], smallest, largest) << 16;
    };
    ASSERT_EQ(out[i][1], pair(0, 65535)) << a[i] << " " << b[i];
    ASSERT_EQ(out[i][2], pair(-32768, 32767)) << a[i] << " " << b[i];
    const uint32_t normalized = std::isnan(a[i]) ? 0
                                : a[i] >= 1      ? 32767
                                : a[i] <= -1     ? 0x8001
                                : a[i] == 0.5f   ? 16384
                                                 : 0xe000;
    ASSERT_EQ(out[i][0] & 0xffff, normalized) << a[i];
  }
}

// Small integers, so that sums are exact in every type. A and B: 16 rows (columns) of 16 k.
class SignedMatrices : public RareGfx11Kernels {
 protected:
  // Which halves of A and B, and what of C: negates, or takes the magnitude first.
  struct Signs {
    bool a_low = false, a_high = false, b_low = false, b_high = false;
    bool c_magnitude = false, c = false;
  };
  enum class Type : uint8_t { kHalf, kBfloat };

  std::vector<int> integers(size_t count) {
    std::vector<int> out(count);
    for (int& value : out) value = static_cast<int>(engine_() % 9) - 4;
    return out;
  }
  static uint32_t bits_of(Type type, int value) {
    if (type == Type::kBfloat) return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
  }
  static std::vector<uint32_t> packed(Type type, const std::vector<int>& values) {
    std::vector<uint32_t> out(values.size() / 2);
    for (size_t i = 0; i < values.size(); ++i)
      out[i / 2] |= bits_of(type, values[i]) << 16 * (i % 2);
    return out;
  }
  // Item n of a lane is row 2n or 2n + 1, of the column of the lane.
  void expect_products(const std::string& kernel, Type type, bool narrow, const Signs& signs) {
    const auto a = integers(256), b = integers(256), c = integers(256);
    gpu_.put(kA, packed(type, a));
    gpu_.put(kB, packed(type, b));
    std::vector<uint32_t> words(256);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = narrow ? bits_of(type, c[i]) : std::bit_cast<uint32_t>(static_cast<float>(c[i]));
    gpu_.put(kOut, words);
    gpu_.arguments(kA, kB, kOut);
    expect_done(kernel);
    const auto out = gpu_.get<uint32_t>(kOut, 256);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t lane = i / 8, column = lane % 16, row = i % 8 * 2 + lane / 16;
      int sum = signs.c_magnitude ? std::abs(c[i]) : c[i];
      if (signs.c) sum = -sum;
      for (size_t k = 0; k < 16; ++k) {
        const bool of_a = k % 2 ? signs.a_high : signs.a_low;
        const bool of_b = k % 2 ? signs.b_high : signs.b_low;
        const int product = a[row * 16 + k] * b[column * 16 + k];
        sum += of_a != of_b ? -product : product;
      }
      ASSERT_EQ(narrow ? out[i] & 0xffff : out[i],
                narrow ? bits_of(type, sum) : std::bit_cast<uint32_t>(static_cast<float>(sum)))
          << row << " " << column;
    }
  }
};

TEST_F(SignedMatrices, OfHalvesOfOperandsAndOfSums) {
  expect_products("negated_a_and_c", Type::kHalf, false, {.a_low = true, .c = true});
  expect_products("negated_b_and_magnitude", Type::kBfloat, false,
                  {.b_high = true, .c_magnitude = true, .c = true});
  expect_products("negated_halves", Type::kHalf, true,
                  {.a_low = true, .a_high = true, .b_low = true, .c_magnitude = true});
}

}  // namespace
}  // namespace gpu::test
