// SPDX-License-Identifier: GPL-2.0
#include "waves/stack.h"

#include <gtest/gtest.h>

namespace amdgpu_criu {
namespace {

// 16 VGPRs, of them 8 accumulation VGPRs, 112 SGPRs, 1024 bytes of LDS.
constexpr uint32_t kState = 1u << 31 | 1u << 24 | 2u << 9 | 7u << 6 | 1u;
constexpr uint32_t kFirst = 1u << 17, kLast = 1u << 16, kEvent = 1u << 30;
constexpr uint64_t kRegisters = 16 * 256 + 112 * 4 + 64 + 64, kLds = 1024, kGap = 64;

// A group of two waves, then one of one wave.
SavedQueue three_waves() {
  const uint32_t stack[] = {0, 0, kState, kFirst, kLast, kEvent, kFirst | kLast};
  return decode_stack(stack, Generation::kGfx9);
}

TEST(SavedWaves, TheFirstWordDescribesTheHighestRecord) {
  const SavedQueue queue = three_waves();
  ASSERT_EQ(queue.waves.size(), 3u);
  EXPECT_EQ(queue.groups, 2u);
  EXPECT_EQ(queue.bytes, 3 * (kRegisters + kGap) + 2 * kLds);
  EXPECT_EQ(queue.waves[2].record, 0u);
  EXPECT_EQ(queue.waves[1].record, kRegisters + kLds + kGap);
  EXPECT_EQ(queue.waves[0].record, queue.waves[1].record + kRegisters + kGap);
}

TEST(SavedWaves, WavesAreCountedInTheirGroup) {
  const SavedQueue queue = three_waves();
  const std::pair<uint32_t, uint32_t> wanted[] = {{0, 0}, {0, 1}, {1, 0}};
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(std::pair(queue.waves[i].group, queue.waves[i].number), wanted[i]);
}

TEST(SavedWaves, RegistersAreWhereTheTrapHandlerPutsThem) {
  const SavedWave first = three_waves().waves[0];
  EXPECT_EQ(first.register_at("v7"), 7 * 256u);
  EXPECT_EQ(first.register_at("a0"), 8 * 256u);
  EXPECT_EQ(first.register_at("s20"), 16 * 256u + 80);
  EXPECT_EQ(first.register_at("pc"), 16 * 256u + 112 * 4 + 4);
  EXPECT_EQ(first.register_at("lds3"), kRegisters + 12);
}

TEST(SavedWaves, ARegisterThatAWaveDoesNotHaveIsNotFound) {
  const SavedQueue queue = three_waves();
  for (const char* name : {"v8", "a8", "s112", "lds256", "x1", "v", ""})
    EXPECT_FALSE(queue.waves[0].register_at(name)) << name;
  EXPECT_FALSE(queue.waves[1].register_at("lds0")) << "not the first wave of its group";
}

// 16 VGPRs of 32 lanes, 1024 bytes of LDS. The word behind the state looks like a wave.
TEST(SavedWaves, OfGfx11HaveNoGapsAndTheirOwnPlaces) {
  constexpr uint32_t kState11 = 1u << 31 | 1u << 24 | 2u << 10 | 1u;
  constexpr uint32_t kFirst11 = 1u << 12, kLast11 = 1u << 29;
  constexpr uint64_t kRegisters11 = 16 * 128 + 512 + 64 + 64;
  const uint32_t stack[] = {0,        0,       kState11, kFirst11 | kLast11,
                            kFirst11, kLast11, kEvent,   kFirst11 | kLast11};
  const SavedQueue queue = decode_stack(stack, Generation::kGfx11);
  ASSERT_EQ(queue.waves.size(), 3u);
  EXPECT_EQ(queue.groups, 2u);
  EXPECT_EQ(queue.bytes, 3 * kRegisters11 + 2 * kLds);
  EXPECT_EQ(queue.waves[1].record, kRegisters11 + kLds);
  const SavedWave& first = queue.waves[0];
  EXPECT_EQ(first.register_at("v7"), 7 * 128u);
  EXPECT_EQ(first.register_at("s20"), 16 * 128u + 80);
  EXPECT_EQ(first.register_at("pc"), 16 * 128u + 512 + 4);
  EXPECT_EQ(first.register_at("lds3"), kRegisters11 + 12);
  for (const char* name : {"v16", "a0", "s108"}) EXPECT_FALSE(first.register_at(name)) << name;
}

TEST(SavedWaves, OfGfx11With64LanesHaveTheirVgprsInBlocksOfFour) {
  const uint32_t stack[] = {0, 0, 1u << 31 | 4u, 0, 1u << 12 | 1u << 29};
  const SavedQueue queue = decode_stack(stack, Generation::kGfx11);
  ASSERT_EQ(queue.waves.size(), 1u);
  EXPECT_EQ(queue.waves[0].register_at("v19"), 19 * 256u);
  EXPECT_FALSE(queue.waves[0].register_at("v20"));
}

}  // namespace
}  // namespace amdgpu_criu
