// SPDX-License-Identifier: GPL-2.0
// Items of one word or four of memory and LDS that the lanes of a wave read and write, in a row and
// apart.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "shader/kernel_machine.h"

namespace gpu::test {
namespace {

using Words = std::vector<uint32_t>;

constexpr uint32_t kSize = 64, kLdsItems = 256, kMemoryItems = 512;
constexpr uint64_t kPlaces = 0x500000, kMemory = kA;  // near the end of a page

struct Arrangement {
  const char* name;
  uint32_t (*place)(uint32_t lane);
};
constexpr Arrangement kArrangements[] = {
    {"in a row", [](uint32_t lane) { return lane; }},
    {"in a row behind another place", [](uint32_t lane) { return lane + 77; }},
    {"in rows", [](uint32_t lane) { return (3 - lane / 16) * 40 + lane % 16; }},
    {"in rows except for one", [](uint32_t lane) { return lane == 37 ? 5 : lane; }},
    {"backwards", [](uint32_t lane) { return 63 - lane; }},
    {"the same", [](uint32_t) { return 9u; }},
    {"the same of each block", [](uint32_t lane) { return lane / 16 * 7; }},
    {"the same except for one", [](uint32_t lane) { return lane == 63 ? 4u : 9u; }},
    {"apart", [](uint32_t lane) { return lane * 37 % kLdsItems; }},
    {"in rows, and the end of LDS within the last",
     [](uint32_t lane) { return lane < 48 ? lane : kLdsItems - 8 + lane % 16; }},
    {"the same, some behind LDS", [](uint32_t lane) { return lane < 48 ? 3 : kLdsItems; }},
    {"apart, some behind LDS", [](uint32_t lane) { return lane * 6; }},
};

Words numbered(size_t count) {
  Words words(count);
  std::iota(words.begin(), words.end(), 50000);
  return words;
}

// The words of items, of which 0 stands for one that was not read.
Words words_of(const Words& items, unsigned count) {
  Words words;
  for (const uint32_t item : items)
    for (uint32_t i = 0; i < count; ++i) words.push_back(item ? item + i * 100000 : 0);
  return words;
}

// What the lanes find in LDS and in memory, LDS afterwards, memory afterwards; lane by lane.
Words items_found(const Words& places, bool all) {
  Words out(2 * kSize), lds(kLdsItems), memory = numbered(kMemoryItems);
  for (uint32_t i = 0; i < kLdsItems; ++i) lds[i] = i * 7 + 1;
  for (const bool writes : {false, true})
    for (uint32_t lane = 0; lane < kSize; ++lane) {
      if (!all && lane % 3 == 0) continue;
      const uint32_t at = places[lane];
      if (writes) {
        if (at < kLdsItems) lds[at] = lane + 1000;
        memory[at] = lane + 2000;
      } else {
        out[lane] = at < kLdsItems ? lds[at] : 0;
        out[kSize + lane] = memory[at];
      }
    }
  out.insert(out.end(), lds.begin(), lds.end());
  out.insert(out.end(), memory.begin(), memory.end());
  return out;
}

using LayoutParameters = std::tuple<Isa, unsigned>;
class Layouts : public testing::TestWithParam<LayoutParameters> {};
INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::Combine(testing::Values(Isa::kGfx90a, Isa::kGfx1100),
                                          testing::Values(1u, 4u)));

TEST_P(Layouts, LanesFindTheirItems) {
  const auto [isa, count] = GetParam();
  Machine gpu("layouts.co", isa);
  for (const bool all : {true, false})
    for (const Arrangement& one : kArrangements) {
      SCOPED_TRACE(one.name);
      Words places(kSize);
      for (uint32_t lane = 0; lane < kSize; ++lane) places[lane] = one.place(lane);
      gpu.put(kPlaces, places);
      gpu.put(kMemory, words_of(numbered(kMemoryItems), count));
      gpu.arguments(kPlaces, kMemory, kOut, uint32_t{all});
      ASSERT_EQ(gpu.run(count == 1 ? "words" : "fours", 1, {kSize, 1, 1}), Dispatch::State::kDone)
          << gpu.complaint();
      Words out = gpu.get<uint32_t>(kOut, size_t{count} * (2 * kSize + kLdsItems));
      const Words memory = gpu.get<uint32_t>(kMemory, size_t{count} * kMemoryItems);
      out.insert(out.end(), memory.begin(), memory.end());
      EXPECT_EQ(out, words_of(items_found(places, all), count))
          << (all ? "all lanes" : "two of three lanes");
    }
}

TEST(BufferLayouts, LanesFindTheirWords) {
  Machine gpu("rare.co", Isa::kGfx90a);
  const Words words = numbered(256);
  gpu.put(kMemory, words);
  for (const uint32_t inside : {kSize, kSize / 2, 0u}) {
    gpu.put(kOut, Words(3 * kSize));
    gpu.arguments(kMemory, kOut, inside);
    ASSERT_EQ(gpu.run("inside_buffers", 1, {kSize, 1, 1}), Dispatch::State::kDone)
        << gpu.complaint();
    const auto out = gpu.get<uint32_t>(kOut, 3 * kSize);
    for (uint32_t lane = 0; lane < kSize; ++lane) {
      const uint32_t word = lane < inside ? words[lane + 5] : 0;
      ASSERT_EQ(out[lane], word) << lane;
      ASSERT_EQ(out[kSize + lane], word) << lane;
      ASSERT_EQ(out[2 * kSize + lane], lane < inside ? lane + 1 : 0) << lane;
    }
  }
}

}  // namespace
}  // namespace gpu::test
