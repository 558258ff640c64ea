// SPDX-License-Identifier: GPL-2.0
#include "goals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace amdgpu_criu::bench {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Writes take 100 ms, and copies less.
Verdict verdict_of(const std::vector<double>& dumps, bool on_disk = true,
                   Cases cases = Cases::kChosen) {
  const std::vector<double> copies(dumps.size(), 10), writes(dumps.size(), 100);
  return compare_with_goals({{"1x2GiB/copy", copies},
                             {"1x2GiB/write 4 x 8 MiB", writes},
                             {"1x2GiB/write 16 x 1 MiB", writes},
                             {"1x2GiB/dump", dumps}},
                            on_disk, cases);
}

TEST(HostGoals, AGoalIsMetByTheMedianOfTheRounds) {
  const Verdict verdict = verdict_of({90, 101, 102, 200, 300});
  EXPECT_EQ(verdict.outcome, Outcome::kMet);
  EXPECT_THAT(verdict.text, HasSubstr("0.98, at least 0.95: met"));
}

TEST(HostGoals, AGoalThatEveryRoundMissesIsMissed) {
  const Verdict verdict = verdict_of({110, 120, 125, 130, 140});
  EXPECT_EQ(verdict.outcome, Outcome::kMissed);
  EXPECT_THAT(verdict.text, HasSubstr("0.80, at least 0.95: MISSED\n"));
}

TEST(HostGoals, AKnownMissIsShownAndIsNoError) {
  const Verdict verdict = verdict_of({110, 120, 125, 130, 140}, false);
  EXPECT_EQ(verdict.outcome, Outcome::kMet);
  EXPECT_THAT(verdict.text, HasSubstr("0.80, at least 0.95: MISSED (known: "));
  const Verdict undecided = verdict_of({80, 110, 125, 130, 140}, false);
  EXPECT_EQ(undecided.outcome, Outcome::kMet);
  EXPECT_THAT(undecided.text, HasSubstr("undecided, 0.71 to 1.25 in 5 rounds (known: "));
}

TEST(HostGoals, RoundsOnBothSidesOfAGoalDecideNothing) {
  const Verdict verdict = verdict_of({80, 110, 125, 130, 140});
  EXPECT_EQ(verdict.outcome, Outcome::kUndecided);
  EXPECT_THAT(verdict.text, HasSubstr("undecided, 0.71 to 1.25 in 5 rounds"));
  EXPECT_THAT(verdict.text,
              EndsWith("goals: 0 met or known to be missed, 0 missed, 1 undecided\n"));
}

TEST(HostGoals, FewRoundsDecideNothing) {
  const Verdict verdict = verdict_of({90, 90, 90, 90});
  EXPECT_EQ(verdict.outcome, Outcome::kUndecided);
  EXPECT_THAT(verdict.text, HasSubstr("undecided: 4 rounds, 5 are needed"));
  EXPECT_EQ(verdict_of({110, 120, 125, 130}).outcome, Outcome::kUndecided);
}

TEST(HostGoals, AGoalThatWasNotMeasuredIsMissedUnlessTheCasesWereChosen) {
  const std::vector<double> good(5, 90);
  EXPECT_EQ(verdict_of(good, true, Cases::kChosen).outcome, Outcome::kMet);
  const Verdict verdict = verdict_of(good, true, Cases::kAll);
  EXPECT_EQ(verdict.outcome, Outcome::kMissed);
  EXPECT_THAT(verdict.text, HasSubstr("at least 0.90: not measured\n"));
  EXPECT_THAT(verdict.text, HasSubstr("on the slow disk"));
  EXPECT_THAT(verdict.text, Not(HasSubstr("16x128MiB  on the slow disk")));
  EXPECT_THAT(verdict.text, Not(HasSubstr("slow CPUs")));
  const std::string in_memory = verdict_of(good, false, Cases::kAll).text;
  EXPECT_THAT(in_memory, Not(HasSubstr("on the slow disk")));
  EXPECT_THAT(in_memory, HasSubstr("with 16 slow CPUs"));
  EXPECT_THAT(in_memory, Not(HasSubstr("16x128MiB  with 16 slow CPUs")));
}

TEST(GpuGoals, EachRateIsComparedUnlessTheCasesWereChosen) {
  const Rates both{{"integers", 21e6},
                   {"floats", 20e6},
                   {"integers_wave32", 22e6},
                   {"floats_wave32", 20e6},
                   {"memory", 1e6}};
  EXPECT_EQ(compare_rates(both, Cases::kAll).outcome, Outcome::kMet);
  const Verdict slow = compare_rates({{"integers", 19e6}, {"floats", 21e6}}, Cases::kChosen);
  EXPECT_EQ(slow.outcome, Outcome::kMissed);
  EXPECT_THAT(slow.text, HasSubstr("integers: 19.0 M wave instructions per second, at least 20 M: "
                                   "MISSED\nfloats: 21.0 M"));
  const Verdict one = compare_rates({{"floats", 21e6}}, Cases::kAll);
  EXPECT_EQ(one.outcome, Outcome::kMissed);
  EXPECT_THAT(one.text, HasSubstr("at least 20 M: not measured\n"));
  EXPECT_EQ(compare_rates({{"floats", 21e6}}, Cases::kChosen).outcome, Outcome::kMet);
}

// 2 * (1 + 9) of 2^9 cases, and 2 * (1 + 9 + 36).
TEST(HostGoals, OfNineRoundsTheFirstAndTheLastDecideNothing) {
  EXPECT_EQ(verdict_of({80, 110, 125, 125, 125, 125, 130, 130, 130}).outcome, Outcome::kMissed);
  EXPECT_EQ(verdict_of({80, 81, 125, 125, 125, 125, 130, 130, 130}).outcome, Outcome::kUndecided);
}

}  // namespace
}  // namespace amdgpu_criu::bench
