// SPDX-License-Identifier: GPL-2.0
// Whether saved waves fit on a GPU with other CUs.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "mqd_layouts.h"

namespace {

using Words = std::vector<u32>;

// A control stack as the CP of GFX9 writes it, from its fill level on.
class Stack {
 public:
  static constexpr u32 kSize = 4096;

  Stack& kind() { return word(1u << 31 | 7 << 9); }
  Stack& groups(u32 num, u32 engine, u32 waves) {
    for (u32 i = 0; i < num * waves; i++) word(engine << 9 | u32{i % waves == 0} << 17);
    return *this;
  }
  Stack& word(u32 value) {
    words_.push_back(value);
    return *this;
  }
  u32 fill() const { return kSize - static_cast<u32>(words_.size() * 4); }
  Words memory() const {
    Words all(kSize / 4 - words_.size(), 1u << 17);  // anything is below it
    all.insert(all.end(), words_.begin(), words_.end());
    return all;
  }

 private:
  Words words_ = {0xc0001000, 0};
};

struct Boards {
  std::array<u8, 16> is{}, was{};
};
constexpr Boards kBoards = {.is = {3, 0, 4}, .was = {4, 0, 3}};

bool fits(mqd_kind kind, const Stack& stack, const Boards& boards = kBoards) {
  const auto* layout = mqd_layout(kind);
  Words mqd(mqd_words(layout));
  mqd[mqd_stack_word(layout)] = stack.fill();
  return kfd_criu_mqd_waves_fit(layout, mqd.data(), stack.memory().data(), Stack::kSize,
                                boards.is.data(), boards.was.data(), 16);
}

// A CU holds as many groups as CUs did on average, which some did.
TEST(MqdWaves, FitInTheCusOfTheirEngine) {
  for (const auto& [groups, fit] : std::map<u32, bool>{{1, true},
                                                       {3, true},
                                                       {4, false},
                                                       {5, true},
                                                       {6, true},
                                                       {7, false},
                                                       {8, false},
                                                       {24, false},
                                                       {31, false},
                                                       {32, false}}) {
    EXPECT_EQ(fits(MQD_CP, Stack().kind().groups(groups, 0, 4)), fit) << groups;
    EXPECT_EQ(fits(MQD_CP_9_4_3, Stack().kind().groups(groups, 0, 1)), fit) << groups;
    EXPECT_EQ(fits(MQD_CP, Stack().kind().groups(50, 1, 4).groups(groups, 0, 16)), fit) << groups;
  }
}

// What was there fits again, whatever it is.
TEST(MqdWaves, FitInAnEngineWithAsManyCus) {
  const Stack full = Stack().kind().groups(50, 1, 16);
  EXPECT_TRUE(fits(MQD_CP, full));
  EXPECT_TRUE(fits(MQD_CP, full, {.is = {2, 0, 5, 4}, .was = {3, 0, 4, 5}})) << "two arrays";
  EXPECT_FALSE(fits(MQD_CP, full, {.is = {4, 0, 2}, .was = {3, 0, 3}}));
}

TEST(MqdWaves, OfSeveralKindsNeedRoomTogether) {
  Stack stack = Stack().kind().groups(2, 0, 4);
  EXPECT_TRUE(fits(MQD_CP, stack.kind().groups(1, 0, 16)));
  EXPECT_TRUE(fits(MQD_CP, stack.word(1u << 30 | 1u << 17))) << "an event";
  EXPECT_TRUE(fits(MQD_CP, stack.kind().groups(1, 1, 1)));
  EXPECT_FALSE(fits(MQD_CP, stack.kind().groups(1, 0, 1)));
}

// A control stack that the process has in its memory is not read.
TEST(MqdWaves, ThatAreNotKnownNeedAsManyCus) {
  const Stack one = Stack().kind().groups(1, 0, 1);
  for (const mqd_kind kind : {MQD_CP_8, MQD_CP_10, MQD_CP_11, MQD_CP_12, MQD_CP_12_1}) {
    EXPECT_FALSE(fits(kind, one)) << kind;
    EXPECT_TRUE(fits(kind, one, {.is = {4}, .was = {3}})) << kind;
  }
  EXPECT_TRUE(fits(MQD_CP, one));
}

TEST(MqdWaves, NoneFitAnywhere) {
  for (const mqd_kind kind : {MQD_CP, MQD_CP_11}) {
    const auto* layout = mqd_layout(kind);
    for (const u32 fill : {Stack::kSize, ~0u}) {
      Words mqd(mqd_words(layout)), stack(Stack::kSize / 4);
      mqd[mqd_stack_word(layout)] = fill;
      EXPECT_TRUE(kfd_criu_mqd_waves_fit(layout, mqd.data(), stack.data(), Stack::kSize,
                                         kBoards.is.data(), kBoards.was.data(), 16));
    }
  }
}

}  // namespace
