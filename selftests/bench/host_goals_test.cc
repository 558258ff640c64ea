// SPDX-License-Identifier: GPL-2.0
#include "host_goals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace amdgpu_criu::bench {
namespace {

using ::testing::HasSubstr;

// Writes take 100 ms, and copies less.
Verdict verdict_of(const std::vector<double>& dumps, bool on_disk = true) {
  const std::vector<double> copies(dumps.size(), 10), writes(dumps.size(), 100);
  return compare_with_goals({{"1x2GiB/copy", copies},
                             {"1x2GiB/write 4 x 8 MiB", writes},
                             {"1x2GiB/write 16 x 1 MiB", writes},
                             {"1x2GiB/dump", dumps}},
                            on_disk);
}

TEST(HostGoals, AGoalIsMetByTheMedianOfTheRounds) {
  const Verdict verdict = verdict_of({90, 101, 102, 200, 300});
  EXPECT_TRUE(verdict.good);
  EXPECT_THAT(verdict.text, HasSubstr("0.98, at least 0.95: met"));
}

TEST(HostGoals, AGoalThatEveryRoundMissesIsMissed) {
  const Verdict verdict = verdict_of({110, 120, 125, 130, 140});
  EXPECT_FALSE(verdict.good);
  EXPECT_THAT(verdict.text, HasSubstr("0.80, at least 0.95: MISSED\n"));
}

TEST(HostGoals, AKnownMissIsShownAndIsNoError) {
  const Verdict verdict = verdict_of({110, 120, 125, 130, 140}, false);
  EXPECT_TRUE(verdict.good);
  EXPECT_THAT(verdict.text, HasSubstr("0.80, at least 0.95: MISSED (known: "));
}

TEST(HostGoals, RoundsOnBothSidesOfAGoalDecideNothing) {
  const Verdict verdict = verdict_of({80, 110, 125, 130, 140});
  EXPECT_TRUE(verdict.good);
  EXPECT_THAT(verdict.text, HasSubstr("undecided, 0.71 to 1.25 in 5 rounds"));
}

// 2 * (1 + 9) of 2^9 cases, and 2 * (1 + 9 + 36).
TEST(HostGoals, OfNineRoundsTheFirstAndTheLastDecideNothing) {
  EXPECT_FALSE(verdict_of({80, 110, 125, 125, 125, 125, 130, 130, 130}).good);
  EXPECT_TRUE(verdict_of({80, 81, 125, 125, 125, 125, 130, 130, 130}).good);
}

}  // namespace
}  // namespace amdgpu_criu::bench
