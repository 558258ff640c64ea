// SPDX-License-Identifier: GPL-2.0
// The kernels of basic.cl on the chips that tests run them on, and their results on the CPU.
#pragma once

#include <random>

#include "shader/kernel_fixture.h"

namespace gpu::test {

struct Chip {
  const char* name;
  const Asic& asic;
  const char* object;
  unsigned lanes = 64;
};
inline void PrintTo(const Chip& chip, std::ostream* out) { *out << chip.name; }

class BasicKernels : public KernelTest, public ::testing::WithParamInterface<Chip> {
 protected:
  BasicKernels() : KernelTest(GetParam().object, GetParam().asic) {}
  template <typename T>
  std::vector<T> random(size_t count, T lowest, T highest) {
    std::vector<T> values(count);
    for (T& value : values) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(std::uniform_int_distribution<uint64_t>(lowest, highest)(engine_));
      } else {
        value = std::uniform_real_distribution<T>(lowest, highest)(engine_);
      }
    }
    return values;
  }
  // Dispatches churn, in groups of 256.
  void submit_churn(const std::vector<uint32_t>& values, uint32_t rounds) {
    put_all(kData, values);
    arguments(kData, rounds);
    const uint64_t object = object_of("churn");
    submit(object, {.grid = {static_cast<uint32_t>(values.size()), 1, 1},
                    .group = {256, 1, 1},
                    .lds = get<uint32_t>(object)});
  }
  std::mt19937 engine_{1};
};

inline uint32_t private_sum(uint32_t value, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t k = 0; k < n; ++k) sum += (value * ((value + k * 7) % 24 + 1)) ^ k;
  return sum;
}

// The result of churn, on the CPU.
inline std::vector<uint32_t> churned(std::vector<uint32_t> values, uint32_t rounds) {
  for (size_t group = 0; group < values.size(); group += 256) {
    for (uint32_t round = 0; round < rounds; ++round) {
      const std::vector<uint32_t> row(values.begin() + static_cast<ptrdiff_t>(group),
                                      values.begin() + static_cast<ptrdiff_t>(group + 256));
      for (size_t i = 0; i < 256; ++i) {
        values[group + i] = row[(i + 1) % 256] * 1664525u + 1013904223u + round;
      }
    }
  }
  return values;
}

inline std::string name_of_chip(const ::testing::TestParamInfo<Chip>& info) {
  return info.param.name;
}
inline const auto kMi210 = ::testing::Values(Chip{"mi210", mi210(), "basic.co"});
inline const auto kNavi31 = ::testing::Values(Chip{"navi31", navi31(), "basic.co", 32},
                                              Chip{"navi31_wave64", navi31(), "basic64.co"});

}  // namespace gpu::test
