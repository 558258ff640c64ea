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

}  // namespace
}  // namespace gpu::test
