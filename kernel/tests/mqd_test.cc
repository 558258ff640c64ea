// SPDX-License-Identifier: GPL-2.0
// The words of an MQD that a blob may contain: every word of every layout, with hostile values, for
// one XCC and for several.
#include <linux/crc32.h>

#include <bit>
#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mqd_layouts.h"

namespace {

using Words = std::vector<u32>;

constexpr u32 kMaxXccs = 8;
// Follows the last MQD: no function may write there.
constexpr u32 kGuard = 0xdeadbeef;

struct Layout {
  const char* name;
  mqd_kind kind;
  u32 words, state, owned, opaque;
  // A checksum of the masks of all words, which changes if a word changes its class.
  u32 sum;
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class Mqd : public ::testing::TestWithParam<Layout> {
 protected:
  const kfd_criu_mqd_layout* layout() const { return mqd_layout(GetParam().kind); }
  u32 words() const { return mqd_words(layout()); }
  u32 mask(u32 word) const {
    bool opaque;
    return mqd_mask(layout(), word, &opaque);
  }
  bool is_opaque(u32 word) const {
    bool opaque;
    mqd_mask(layout(), word, &opaque);
    return opaque;
  }
  Words random(u32 num) {
    Words result(static_cast<size_t>(words()) * num);
    for (u32& word : result) word = static_cast<u32>(random_());
    return result;
  }
  int check(const Words& mqds) const {
    return kfd_criu_mqd_check(layout(), mqds.data(), static_cast<u32>(mqds.size()) / words());
  }

 private:
  std::mt19937 random_{1};
};

TEST_P(Mqd, EveryWordIsInOneClass) {
  EXPECT_EQ(mqd_num_bad_spans(layout()), 0u);
  for (u32 word = 0; word < words(); word++) {
    EXPECT_LE(mqd_num_spans(layout(), word), 1u) << "word " << word;
    if (is_opaque(word)) {
      EXPECT_EQ(mask(word), ~0u) << "word " << word;
    }
  }
}

TEST_P(Mqd, ClassesAreTheSameAsInOldBlobs) {
  u32 state = 0, owned = 0, opaque = 0, sum = 0;
  for (u32 word = 0; word < words(); word++) {
    const u32 pair[] = {mask(word), is_opaque(word)};
    opaque += is_opaque(word);
    owned += !mask(word);
    state += mask(word) && !is_opaque(word);
    sum = crc32c(sum, pair, sizeof(pair));
  }
  EXPECT_EQ(words(), GetParam().words);
  EXPECT_EQ(kfd_criu_mqd_size(layout()), GetParam().words * sizeof(u32));
  EXPECT_EQ(state, GetParam().state);
  EXPECT_EQ(owned, GetParam().owned);
  EXPECT_EQ(opaque, GetParam().opaque);
  EXPECT_EQ(sum, GetParam().sum) << std::hex << sum;
}

// Words that a restore of waves needs must be saved.
TEST_P(Mqd, FillsOfSaveAreasAreState) {
  for (const u32 word : {mqd_stack_word(layout()), mqd_wave_word(layout())})
    if (word) {
      EXPECT_EQ(mask(word), ~0u);
      EXPECT_FALSE(is_opaque(word));
    }
}

TEST_P(Mqd, StripKeepsStateAndOpaqueWords) {
  for (u32 num = 1; num <= kMaxXccs; num++) {
    const Words before = random(num);
    Words after = before;
    after.push_back(kGuard);
    kfd_criu_mqd_strip(layout(), after.data(), num);
    EXPECT_EQ(after.back(), kGuard);
    for (u32 i = 0; i < before.size(); i++)
      ASSERT_EQ(after[i], before[i] & mask(i % words())) << "word " << i;
    after.pop_back();
    EXPECT_EQ(check(after), 0);
  }
}

// The lowest and the highest, in the first MQD and in the last.
TEST_P(Mqd, OneBitOfAnOwnedWordIsRefused) {
  for (const u32 num : {1u, 2u})
    for (u32 word = 0; word < words(); word++) {
      const u32 owned = ~mask(word);
      for (const u32 bit : {owned & -owned, std::bit_floor(owned)}) {
        Words mqds(static_cast<size_t>(words()) * num);
        mqds[static_cast<size_t>(num - 1) * words() + word] = bit;
        ASSERT_EQ(check(mqds), bit ? -EOPNOTSUPP : 0) << "word " << word;
      }
    }
}

TEST_P(Mqd, AllBitsOfStateAndOpaqueWordsAreAccepted) {
  for (const u32 num : {1u, 2u})
    for (u32 word = 0; word < words(); word++) {
      Words mqds(static_cast<size_t>(words()) * num);
      mqds[static_cast<size_t>(num - 1) * words() + word] = mask(word);
      ASSERT_EQ(check(mqds), 0) << "word " << word;
    }
}

TEST_P(Mqd, MergeCopiesAllWordsThatAreNotOwned) {
  for (u32 num = 1; num <= kMaxXccs; num++) {
    const Words fresh = random(num), saved = random(num);
    Words merged = fresh;
    merged.push_back(kGuard);
    kfd_criu_mqd_merge(layout(), merged.data(), saved.data(), num);
    EXPECT_EQ(merged.back(), kGuard);
    for (u32 i = 0; i < fresh.size(); i++) {
      const u32 bits = mask(i % words());
      ASSERT_EQ(merged[i], (fresh[i] & ~bits) | (saved[i] & bits)) << "word " << i;
    }
  }
}

TEST_P(Mqd, WavesLieWithinTheirArea) {
  constexpr u32 kStack = 0x8000, kWaves = 0x100000;
  for (u32 num = 1; num <= kMaxXccs; num++)
    for (u32 xcc = 0; xcc < num; xcc++)
      for (const bool stack : {true, false}) {
        const u32 word = stack ? mqd_stack_word(layout()) : mqd_wave_word(layout());
        const u32 limit = stack ? kStack : kWaves;
        Words mqds(static_cast<size_t>(words()) * num);
        for (const u32 value : {0u, limit, limit + 1, ~0u}) {
          mqds[static_cast<size_t>(xcc) * words() + word] = value;
          const int expected = mqd_stack_word(layout()) && value > limit ? -EBADMSG : 0;
          ASSERT_EQ(kfd_criu_mqd_check_bounds(layout(), mqds.data(), num, kStack, kWaves), expected)
              << value;
        }
      }
}

// XCCs share the work-groups of an AQL packet by these ids. With a duplicate or an id out of range,
// groups run twice or never.
TEST_P(Mqd, LogicalIdsOfXccsAreAPermutation) {
  const u32 at = mqd_logic_xcc_word(layout());
  const bool checked = GetParam().kind == MQD_CP_9_4_3;
  EXPECT_EQ(at != 0, checked);
  for (u32 num = 1; num <= kMaxXccs; num++) {
    Words mqds(static_cast<size_t>(words()) * num, ~0u);
    const auto id = [&](u32 xcc) -> u32& { return mqds[static_cast<size_t>(xcc) * words() + at]; };
    const auto result = [&](bool aql) {
      return kfd_criu_mqd_check_xccs(layout(), mqds.data(), num, aql);
    };
    EXPECT_EQ(result(true), checked ? -EBADMSG : 0);
    for (u32 start = 0; start < num; start++) {
      for (u32 xcc = 0; xcc < num; xcc++) id(xcc) = (start + xcc) % num;
      EXPECT_EQ(result(true), 0);
      EXPECT_EQ(result(false), checked && num > 1 ? -EBADMSG : 0);
      for (const u32 wrong : {num, 31u, 32u, ~0u, (id(num - 1) + 1) % num}) {
        const u32 right = std::exchange(id(num - 1), wrong);
        EXPECT_EQ(result(true), checked && wrong != right ? -EBADMSG : 0) << wrong;
        id(num - 1) = right;
      }
    }
    for (u32 xcc = 0; xcc < num; xcc++) id(xcc) = 0;
    EXPECT_EQ(result(true), checked && num > 1 ? -EBADMSG : 0);
    EXPECT_EQ(result(false), 0);
  }
}

// All enable masks of a new MQD are ~0; a mask in a word that the layout lacks has no meaning.
TEST_P(Mqd, EachMaskOfCusIsFound) {
  const bool compute = mqd_stack_word(layout()) != 0;
  Words mqd(words(), ~0u);
  EXPECT_FALSE(kfd_criu_mqd_masks_cus(layout(), mqd.data()));
  u32 found = 0;
  for (u32 word = 0; word < words(); word++) {
    mqd[word] = ~1u;
    found += kfd_criu_mqd_masks_cus(layout(), mqd.data());
    mqd[word] = ~0u;
  }
  EXPECT_EQ(found, !compute ? 0u : GetParam().kind == MQD_CP_9_4_3 ? 4u : 8u);
}

// GFX11 keeps control stacks in memory of the process.
TEST_P(Mqd, StacksAreSavedWithTheMqdIfTheyFollowIt) {
  const bool behind = GetParam().kind == MQD_CP || GetParam().kind == MQD_CP_9_4_3;
  EXPECT_EQ(kfd_criu_mqd_stack_size(layout(), 0x8000), behind ? 0x8000u : 0u);
}

// Bytes below the fill level do not belong to the process. A level beyond the end clears the whole
// stack and no more.
TEST_P(Mqd, StripClearsStacksBelowTheirFill) {
  constexpr u32 kSize = 256;
  if (!mqd_stack_word(layout())) GTEST_SKIP() << "no control stack";
  for (u32 num = 1; num <= kMaxXccs; num++)
    for (const u32 fill : {0u, 4u, kSize - 4, kSize, ~0u}) {
      Words mqds(static_cast<size_t>(words()) * num);
      std::vector<u8> stacks(static_cast<size_t>(kSize) * num + 1, 0xa5);
      mqds[static_cast<size_t>(num - 1) * words() + mqd_stack_word(layout())] = fill;
      kfd_criu_mqd_strip_stacks(layout(), mqds.data(), stacks.data(), num, kSize);
      for (u32 i = 0; i < stacks.size(); i++) {
        const bool cleared =
            i >= kSize * (num - 1) && i < kSize * num && i - kSize * (num - 1) < fill;
        ASSERT_EQ(stacks[i], cleared ? 0 : 0xa5) << i;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Mqd,
                         ::testing::Values(Layout{.name = "Cp",
                                                  .kind = MQD_CP,
                                                  .words = 512,
                                                  .state = 100,
                                                  .owned = 115,
                                                  .opaque = 297,
                                                  .sum = 0xd7e633c6},
                                           Layout{.name = "Cp943",
                                                  .kind = MQD_CP_9_4_3,
                                                  .words = 512,
                                                  .state = 99,
                                                  .owned = 116,
                                                  .opaque = 297,
                                                  .sum = 0x07afa047},
                                           Layout{.name = "Sdma",
                                                  .kind = MQD_SDMA,
                                                  .words = 128,
                                                  .state = 26,
                                                  .owned = 18,
                                                  .opaque = 84,
                                                  .sum = 0x2995b61a},
                                           Layout{.name = "Cp11",
                                                  .kind = MQD_CP_11,
                                                  .words = 512,
                                                  .state = 178,
                                                  .owned = 120,
                                                  .opaque = 214,
                                                  .sum = 0x2e2eb670},
                                           Layout{.name = "Sdma11",
                                                  .kind = MQD_SDMA_11,
                                                  .words = 128,
                                                  .state = 26,
                                                  .owned = 21,
                                                  .opaque = 81,
                                                  .sum = 0xcef1a1b5}),
                         [](const auto& info) { return info.param.name; });

TEST(MqdLayout, IsThatOfTheGpu) {
  for (const u32 minor : {0u, 1u, 2u, 4u}) {
    const kfd_criu_mqd_layout* layout = mqd_layout_of(9, minor, 1, false);
    EXPECT_EQ(layout, mqd_layout(MQD_CP)) << "9." << minor << ".1";
    EXPECT_EQ(mqd_layout_of(9, minor, 1, true), mqd_layout(MQD_SDMA));
  }
  EXPECT_EQ(mqd_layout_of(9, 4, 2, false), mqd_layout(MQD_CP));
  EXPECT_EQ(mqd_layout_of(9, 4, 3, false), mqd_layout(MQD_CP_9_4_3));
  EXPECT_EQ(mqd_layout_of(9, 4, 4, false), mqd_layout(MQD_CP_9_4_3));
  EXPECT_EQ(mqd_layout_of(9, 5, 0, false), mqd_layout(MQD_CP_9_4_3));
  EXPECT_EQ(mqd_layout_of(9, 0, 0, false), nullptr);
  EXPECT_EQ(mqd_layout_of(8, 0, 3, false), nullptr);
  EXPECT_EQ(mqd_layout_of(10, 1, 0, false), nullptr);
  for (const u32 minor : {0u, 5u, 7u}) {
    EXPECT_EQ(mqd_layout_of(11, minor, 0, false), mqd_layout(MQD_CP_11)) << "11." << minor;
    EXPECT_EQ(mqd_layout_of(11, minor, 0, true), mqd_layout(MQD_SDMA_11)) << "11." << minor;
  }
  EXPECT_EQ(mqd_layout_of(12, 0, 0, false), nullptr);
}

}  // namespace
