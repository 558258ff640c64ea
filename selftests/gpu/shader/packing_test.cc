// SPDX-License-Identifier: GPL-2.0
// Instructions of textures that compute: faces of cubes, and numbers from -1 to 1 as integers.
#include <gmock/gmock.h>

#include "shader/rare_kernels.h"

namespace gpu::test {
namespace {

using shader::half_to_float;

class PackingKernels : public RareKernels {
 protected:
  // From -2 to 2, in steps that are halfway between integers for some.
  std::vector<uint32_t> numbers(size_t count) {
    std::vector<uint32_t> out(count);
    for (uint32_t& value : out)
      value = std::bit_cast<uint32_t>((static_cast<float>(engine_() % 4001) - 2000) / 1000.0f);
    out[5] = 0x7fc00000, out[6] = 0x7f800000, out[7] = 0xff800000, out[8] = 0x3f800000;
    out[9] = 0xbf800000, out[10] = std::bit_cast<uint32_t>(0.5f);
    return out;
  }
};

// Nearest, and even if two are: the largest integer below, or the next.
uint32_t normalized(double value, double smallest, int largest) {
  if (std::isnan(value)) return 0;
  const double scaled = std::min(std::max(value, smallest), 1.0) * largest;
  const double below = std::floor(scaled), rest = scaled - below;
  const bool odd = std::fmod(below, 2) != 0;
  const double rounded = rest > 0.5 || (rest == 0.5 && odd) ? below + 1 : below;
  return static_cast<uint32_t>(static_cast<int32_t>(rounded)) & 0xffff;
}

TEST_F(PackingKernels, NumbersBecomeIntegersAndFacesOfCubes) {
  const auto a = numbers(1024), b = numbers(1024);
  const auto out = run_on("cubes", a, b);
  const auto number = [](uint32_t bits) { return std::bit_cast<float>(bits); };
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = number(a[i]), y = number(b[i]), z = number(a[i ^ 1]);
    const auto snorm = [](double value) { return normalized(value, -1, 32767); };
    const auto unorm = [](double value) { return normalized(value, 0, 65535); };
    ASSERT_EQ(out[i][4], snorm(x) | snorm(y) << 16) << x << " " << y;
    ASSERT_EQ(out[i][5], unorm(x) | unorm(y) << 16) << x << " " << y;
    const double half = double{half_to_float(a[i] & 0xffff)};
    ASSERT_EQ(out[i][6], snorm(half) | snorm(double{half_to_float(b[i] & 0xffff)}) << 16) << half;
    ASSERT_EQ(out[i][7], snorm(half) | unorm(half) << 16) << half;
    if (std::isnan(x) || std::isnan(y) || std::isnan(z)) continue;
    // OpenGL's table of the faces: +x, -x, +y, -y, +z, -z.
    const float axes[] = {x, y, z};
    const float largest = std::max({std::fabs(x), std::fabs(y), std::fabs(z)});
    const size_t axis = std::fabs(z) == largest ? 2 : std::fabs(y) == largest ? 1 : 0;
    const bool negative = axes[axis] < 0;
    const float s[3][2] = {{-z, z}, {x, x}, {x, -x}}, t[3][2] = {{-y, -y}, {z, -z}, {-y, -y}};
    ASSERT_EQ(number(out[i][0]), static_cast<float>(2 * axis + negative)) << x << y << z;
    ASSERT_EQ(number(out[i][1]), s[axis][negative]) << x << y << z;
    ASSERT_EQ(number(out[i][2]), t[axis][negative]) << x << y << z;
    ASSERT_EQ(number(out[i][3]), 2 * axes[axis]) << x << y << z;
  }
}

}  // namespace
}  // namespace gpu::test
