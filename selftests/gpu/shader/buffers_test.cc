// SPDX-License-Identifier: GPL-2.0
// Buffer resources of gfx11.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "shader/kernel_machine.h"

namespace gpu::test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

enum OutOfBounds : uint32_t { kIndexAndOffset, kIndex, kNotEmpty, kBytes };

struct Resource {
  uint32_t stride = 0, records = 0;
  OutOfBounds check = kBytes;
  uint32_t swizzle = 0;
  bool add_tid = false;
  uint32_t format = 0, select = 0;

  std::array<uint32_t, 4> words() const {
    return {low32(kA), high32(kA) | stride << 16 | swizzle << 30, records,
            select | format << 12 | uint32_t{add_tid} << 23 | uint32_t{check} << 28};
  }
};

class Buffers : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 4096;

  Buffers() {
    std::mt19937 engine{8};
    for (uint8_t& byte : memory_) byte = static_cast<uint8_t>(engine());
    gpu_.put(kA, memory_);
  }
  template <typename... T>
  Dispatch::State run(const std::string& kernel, const Resource& resource, T... more) {
    const auto words = resource.words();
    gpu_.arguments(words[0], words[1], words[2], words[3], more...);
    return gpu_.run(kernel, 1, {kLanes, 1, 1});
  }
  std::vector<std::array<uint32_t, 16>> lanes_of(const std::string& kernel,
                                                 const Resource& resource,
                                                 const std::vector<uint32_t>& at) {
    gpu_.put(kB, at);
    EXPECT_EQ(run(kernel, resource, kB, kOut), Dispatch::State::kDone) << gpu_.complaint();
    return gpu_.get<std::array<uint32_t, 16>>(kOut, kLanes);
  }
  // 0 unless the whole number is in front of the end.
  template <typename T>
  T number(uint64_t offset, uint64_t end) const {
    T value = 0;
    if (offset + sizeof(T) <= end) std::memcpy(&value, &memory_[offset], sizeof(T));
    return value;
  }
  uint32_t word(uint64_t offset, uint64_t end = kSize) const {
    return number<uint32_t>(offset, end);
  }

  static constexpr uint32_t kLanes = 32;
  Machine gpu_{"buffers.co", Isa::kGfx1100};
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kSize);
};

class BuffersOfBytes : public Buffers, public ::testing::WithParamInterface<uint32_t> {};

// Lanes begin in front of the end, at it, and behind it; or all are in the buffer.
TEST_P(BuffersOfBytes, HaveZeroesBehindTheirEnd) {
  const uint32_t end = GetParam();
  std::vector<uint32_t> at(kLanes);
  for (uint32_t i = 0; i < kLanes; ++i) at[i] = i < 31 || end == kSize ? 8 * i : 0xfffffff0;
  const auto out = lanes_of("loads", {.records = end}, at);
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t o = at[i];
    const auto low = [&](auto value) { return static_cast<uint32_t>(value); };
    const std::array<uint32_t, 12> expected = {word(o, end),
                                               word(o + 8, end),
                                               word(o + 12, end),
                                               word(o + 16, end),
                                               word(o + 20, end),
                                               number<uint16_t>(o, end),
                                               low(int32_t{number<int8_t>(o, end)}),
                                               low(number<uint16_t>(o, end) << 16 | 0x1234),
                                               o + 4 <= end ? word(o + 16) : 0,
                                               word(4),
                                               word(8),
                                               word(12)};
    for (size_t k = 0; k < expected.size(); ++k) ASSERT_EQ(out[i][k], expected[k]) << i << " " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BuffersOfBytes, ::testing::Values(203u, 4096u));

// A record has 12 bytes, and there are 20 records.
TEST_F(Buffers, AnIndexBehindTheLastRecordIsOutside) {
  std::vector<uint32_t> at(kLanes);
  std::iota(at.begin(), at.end(), 0);
  for (const OutOfBounds check : {kIndexAndOffset, kIndex, kNotEmpty}) {
    const auto out = lanes_of("records", {.stride = 12, .records = 20, .check = check}, at);
    for (uint32_t i = 0; i < kLanes; ++i) {
      const bool inside = check == kNotEmpty || i < 20;
      EXPECT_EQ(out[i][0], inside ? word(12 * i + 4) : 0) << i;
      EXPECT_EQ(out[i][1], inside ? word(12 * i + 8) : 0) << i;
      EXPECT_EQ(out[i][2], inside ? word(12 * i + 8) : 0) << i;
    }
  }
}

TEST_F(Buffers, AnOperandEndsWithItsRecord) {
  const std::vector<uint32_t> at(kLanes, 3);
  const auto in_record =
      lanes_of("records", {.stride = 8, .records = 20, .check = kIndexAndOffset}, at)[0];
  EXPECT_EQ(in_record[0], word(28));
  EXPECT_EQ(in_record[1], 0u);
  EXPECT_EQ(in_record[2], 0u);
  const auto anywhere = lanes_of("records", {.stride = 8, .records = 20, .check = kIndex}, at)[0];
  EXPECT_EQ(anywhere[1], word(32));
  EXPECT_EQ(anywhere[2], word(32));
}

TEST_F(Buffers, ANumberOfALaneIsAddedToTheIndex) {
  const std::vector<uint32_t> at(kLanes, 2);
  const auto out =
      lanes_of("records", {.stride = 16, .records = 30, .check = kIndex, .add_tid = true}, at);
  for (uint32_t i = 0; i < kLanes; ++i)
    EXPECT_EQ(out[i][0], i + 2 < 30 ? word(16 * (i + 2) + 4) : 0) << i;
}

TEST_F(Buffers, StoresAndAtomicsOutsideAreDropped) {
  constexpr uint32_t kEnd = 300;
  std::vector<uint32_t> at(kLanes), values(kLanes), sums;
  for (uint32_t i = 0; i < kLanes; ++i) at[i] = 16 * i, values[i] = 0x01020304 * (i + 1);
  std::vector<uint8_t> expected = memory_;
  const auto write = [&](uint32_t offset, auto value) {
    if (offset + sizeof(value) <= kEnd) std::memcpy(&expected[offset], &value, sizeof(value));
  };
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t x = values[i], o = at[i];
    write(o, x);
    write(o + 4, o + 8 <= kEnd ? x + 1 + x : x + 1);
    write(o + 8, x + 2);
    write(o + 13, static_cast<uint8_t>(x));
    write(o + 14, static_cast<uint16_t>(x >> 16));
  }
  gpu_.put(kB, at);
  gpu_.put(kB + 0x1000, values);
  ASSERT_EQ(run("stores", {.records = kEnd}, kB, kB + 0x1000, kOut), Dispatch::State::kDone)
      << gpu_.complaint();
  EXPECT_THAT(gpu_.get<uint8_t>(kA, kSize), ElementsAreArray(expected));
  const auto old = gpu_.get<uint32_t>(kOut, kLanes);
  for (uint32_t i = 0; i * 16 + 8 <= kEnd; ++i) EXPECT_EQ(old[i], values[i] + 1) << i;
}

constexpr uint32_t kXyzw = 4 | 5 << 3 | 6 << 6 | 7 << 9;

float texel_float(uint32_t word) { return std::bit_cast<float>(word); }

// Texels of four bytes. The last lane is behind the last one.
TEST_F(Buffers, TexelsAreConvertedAsTheirFormatSays) {
  constexpr uint32_t kFormat8888Unorm = 42;
  std::vector<uint32_t> at(kLanes);
  std::iota(at.begin(), at.end(), 0);
  const auto out = lanes_of("texels",
                            {.stride = 4,
                             .records = kLanes - 1,
                             .check = kIndexAndOffset,
                             .format = kFormat8888Unorm,
                             .select = kXyzw},
                            at);
  for (uint32_t i = 0; i < kLanes - 1; ++i) {
    for (uint32_t k = 0; k < 4; ++k) {
      const uint8_t byte = memory_[4 * i + k];
      EXPECT_EQ(texel_float(out[i][k]), static_cast<float>(byte) / 255.0f);
      EXPECT_EQ(texel_float(out[i][5 + k]),
                std::max(static_cast<float>(static_cast<int8_t>(byte)) / 127.0f, -1.0f));
      const uint32_t wide = k < 3 ? word(4 * i) >> 10 * k & 0x3ff : word(4 * i) >> 30;
      EXPECT_EQ(texel_float(out[i][9 + k]), static_cast<float>(wide) / (k < 3 ? 1023.0f : 3.0f));
    }
    const auto half = number<_Float16>(4 * i + 2, kSize);
    EXPECT_EQ(std::bit_cast<uint16_t>(static_cast<_Float16>(texel_float(out[i][4]))),
              std::bit_cast<uint16_t>(half));
    EXPECT_EQ(texel_float(out[i][13]), static_cast<float>(number<int8_t>(4 * i + 3, kSize)));
  }
  for (uint32_t k = 0; k < 14; ++k) EXPECT_EQ(out[kLanes - 1][k], 0u) << k;
}

// X, 1, 0 and Y of texels that have two components.
TEST_F(Buffers, AResourceChoosesTheComponents) {
  constexpr uint32_t kFormat16Uint2 = 27;
  const std::vector<uint32_t> at(kLanes, 7);
  const auto out = lanes_of("texels",
                            {.stride = 4,
                             .records = 20,
                             .check = kIndexAndOffset,
                             .format = kFormat16Uint2,
                             .select = 4 | 1 << 3 | 0 << 6 | 5 << 9},
                            at)[0];
  EXPECT_EQ(out[0], word(28) & 0xffff);
  EXPECT_EQ(out[1], 1u);
  EXPECT_EQ(out[2], 0u);
  EXPECT_EQ(out[3], word(28) >> 16);
}

TEST_F(Buffers, TexelsAreStoredInFrontOfTheEnd) {
  constexpr uint32_t kFormat32Uint2 = 48, kRecords = 20;
  std::vector<uint32_t> at(kLanes), values(kLanes);
  std::vector<uint8_t> expected = memory_;
  for (uint32_t i = 0; i < kLanes; ++i) {
    at[i] = kLanes - 1 - i, values[i] = 0x01020304 * (i + 1);
    const uint32_t two[] = {values[i], ~values[i]};
    if (at[i] < kRecords) std::memcpy(&expected[8 * at[i]], two, sizeof(two));
  }
  gpu_.put(kB, at);
  gpu_.put(kOut, values);
  const Resource texels = {.stride = 8,
                           .records = kRecords,
                           .check = kIndexAndOffset,
                           .format = kFormat32Uint2,
                           .select = kXyzw};
  ASSERT_EQ(run("store_texels", texels, kB, kOut), Dispatch::State::kDone) << gpu_.complaint();
  EXPECT_THAT(gpu_.get<uint8_t>(kA, kSize), ElementsAreArray(expected));
}

// A texel of two integers with 16 bits, the second one first, as the resource says.
TEST_F(Buffers, TexelsAreNarrowedAsTheyAreStored) {
  constexpr uint32_t kFormat16Uint2 = 27;
  std::vector<uint32_t> at(kLanes), values(kLanes);
  std::vector<uint8_t> expected = memory_;
  for (uint32_t i = 0; i < kLanes; ++i) {
    at[i] = i, values[i] = i % 2 ? 1000 * i : ~(1000 * i);
    const uint16_t two[] = {static_cast<uint16_t>(std::min(~values[i], 0xffffu)),
                            static_cast<uint16_t>(std::min(values[i], 0xffffu))};
    std::memcpy(&expected[4 * i], two, sizeof(two));
  }
  gpu_.put(kB, at);
  gpu_.put(kOut, values);
  const Resource texels = {.stride = 4,
                           .records = kLanes,
                           .check = kIndexAndOffset,
                           .format = kFormat16Uint2,
                           .select = 5 | 4 << 3};
  ASSERT_EQ(run("store_texels", texels, kB, kOut), Dispatch::State::kDone) << gpu_.complaint();
  EXPECT_THAT(gpu_.get<uint8_t>(kA, kSize), ElementsAreArray(expected));
}

// No such format, floats of 11 bits, a component that the texel does not have.
TEST_F(Buffers, AFormatThatIsNotModelledStopsTheWave) {
  for (const auto& [format, select] :
       {std::pair{0u, kXyzw}, std::pair{30u, kXyzw}, std::pair{20u, kXyzw}}) {
    EXPECT_EQ(run("texels",
                  Resource{.stride = 4,
                           .records = 8,
                           .check = kIndexAndOffset,
                           .format = format,
                           .select = select},
                  kB, kOut),
              Dispatch::State::kIllegal);
    EXPECT_THAT(gpu_.complaint(),
                HasSubstr("buffer_load_format_xyzw of such a format is not modelled"));
  }
}

TEST_F(Buffers, ScalarLoadsAreZeroBehindTheEnd) {
  ASSERT_EQ(run("scalars", {.records = 60}, uint32_t{48}, uint32_t{0}, kOut),
            Dispatch::State::kDone)
      << gpu_.complaint();
  EXPECT_THAT(gpu_.get<uint32_t>(kOut, 5),
              ElementsAreArray({word(56), word(48), word(52), word(56), 0u}));
}

// The upper 16 bits of an address would be the stride and the swizzle of the buffer.
TEST_F(Buffers, APcHas48Bits) {
  std::vector<uint32_t> expected = {7, 11, 13, 17, 19, 23, 29, 31};
  expected.resize(kLanes);
  for (const bool high : {false, true}) {
    if (high) gpu_.run_at_high_addresses();
    gpu_.put(kOut, std::vector<uint32_t>(kLanes, 1));
    gpu_.arguments(kOut);
    ASSERT_EQ(gpu_.run("constants", 1, {kLanes, 1, 1}), Dispatch::State::kDone) << gpu_.complaint();
    EXPECT_EQ(gpu_.get<uint32_t>(kOut, kLanes), expected) << high;
  }
}

TEST_F(Buffers, AResourceThatIsNotModelledStopsTheWave) {
  const std::pair<Resource, const char*> resources[] = {
      {{.stride = 16, .records = 8, .check = kIndex, .swizzle = 1}, "swizzle 1, word 3 0x10000000"},
      {{.stride = 16, .records = 512, .check = kBytes, .add_tid = true},
       "swizzle 0, word 3 0x30800000"},
  };
  for (const auto& [resource, words] : resources) {
    EXPECT_EQ(run("loads", resource, kB, kOut), Dispatch::State::kIllegal);
    EXPECT_THAT(gpu_.complaint(), HasSubstr("buffer_load_b32 of stride 16, " + std::string(words) +
                                            " is not modelled"));
  }
}

}  // namespace
}  // namespace gpu::test
