// SPDX-License-Identifier: GPL-2.0
// For tests of instructions that few kernels have: each work-item has two words, and eight for its
// results.
#pragma once

#include <random>

#include "shader/kernel_fixture.h"
#include "shader/numbers.h"

namespace gpu::test {

class RareKernels : public KernelTest {
 protected:
  explicit RareKernels(const std::string& object = "rare.co", const Asic& asic = mi210())
      : KernelTest(object, asic) {}
  using Row = std::array<uint32_t, 8>;
  static constexpr uint64_t kOut = kData + 0x100000;

  std::vector<Row> run_on(const std::string& kernel, const std::vector<uint32_t>& a,
                          const std::vector<uint32_t>& b) {
    put_all(kData, a);
    put_all(kData + 0x80000, b);
    arguments(kData, kData + 0x80000, kOut);
    const auto count = static_cast<uint32_t>(a.size());
    EXPECT_TRUE(runs(kernel, {.grid = {count, 1, 1}, .group = {64, 1, 1}}));
    return get_all<Row>(kOut, a.size());
  }
  // Some near the limits of every type.
  std::vector<uint32_t> random(size_t count) {
    std::vector<uint32_t> values(count);
    for (uint32_t& value : values) value = engine_();
    for (size_t i = 0; i < count; i += 3) values[i] ^= values[i] & 0x70007000;
    for (size_t i = 0; i < count; i += 5) values[i] |= 0x7ff07ff0;
    return values;
  }
  std::mt19937 engine_{5};
};

template <typename T>
uint32_t limited(int64_t value) {
  using Limits = std::numeric_limits<T>;
  const auto within = std::clamp<int64_t>(value, Limits::min(), Limits::max());
  return static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(static_cast<T>(within)));
}
inline int64_t u16(uint32_t value) { return value & 0xffff; }
inline int64_t i16(uint32_t value) { return static_cast<int16_t>(value); }
inline int64_t i32(uint32_t value) { return static_cast<int32_t>(value); }

// Finite, and with something above that does not count.
inline std::vector<uint32_t> finite_halves(std::vector<uint32_t> values) {
  for (uint32_t& value : values)
    for (const uint32_t exponent : {0x7c00u, 0x7c000000u})
      if ((value & exponent) == exponent) value ^= exponent & 0x40004000u;
  return values;
}

}  // namespace gpu::test
