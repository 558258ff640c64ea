// SPDX-License-Identifier: GPL-2.0
#include "workload/chain_math.h"

#include <gtest/gtest.h>

namespace e2e {
namespace {

TEST(ChainMath, ClosedFormEqualsTheSumOfTheQueues) {
  uint64_t value = kStartValue;
  for (uint64_t step = 1; step <= 5000; ++step) {
    value += sdma_addend(step);
    ASSERT_EQ(value, half_value_at(step)) << step;
    value += pm4_addend(step);
    ASSERT_EQ(value, value_at(step)) << step;
  }
}

TEST(ChainMath, ClosedFormHoldsWhereTheTriangleNumberWouldOverflow) {
  for (uint64_t step : {uint64_t{1} << 32, (uint64_t{1} << 33) + 1})
    EXPECT_EQ(value_at(step + 1), value_at(step) + sdma_addend(step + 1) + pm4_addend(step + 1));
}

TEST(ChainMath, ALostOrRepeatedStepChangesTheValue) {
  for (uint64_t step = 1; step < 1000; ++step) {
    EXPECT_NE(value_at(step), value_at(step - 1));
    EXPECT_NE(value_at(step), value_at(step - 1) + sdma_addend(step));
    EXPECT_NE(value_at(step) + pm4_addend(step), value_at(step + 1));
  }
}

TEST(ChainMath, HistorySlotHoldsTheLatestStepThatFallsOnIt) {
  constexpr uint64_t kSlots = 8;
  for (uint64_t last = 0; last < 40; ++last) {
    uint64_t expected[kSlots] = {};
    for (uint64_t step = 1; step <= last; ++step) expected[step % kSlots] = step;
    for (uint64_t slot = 0; slot < kSlots; ++slot)
      EXPECT_EQ(latest_step_in_slot(slot, kSlots, last), expected[slot]) << last << " " << slot;
  }
}

}  // namespace
}  // namespace e2e
