// SPDX-License-Identifier: GPL-2.0
// The number of steps to check a hostile blob with many ranges grows only slightly faster
// than the number of these. A step is a basic block of criu_ranges.c, which the compiler counts.
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "criu_blob.h"

static uint64_t blocks;

// Names of the compiler's. NOLINTBEGIN(bugprone-reserved-identifier)
void __sanitizer_cov_trace_pc_guard(uint32_t* /*guard*/) { blocks++; }
void __sanitizer_cov_trace_pc_guard_init(uint32_t* /*start*/, uint32_t* /*stop*/) {}
// NOLINTEND(bugprone-reserved-identifier)
}

namespace {

constexpr uint32_t kNumber = 1U << 12;

uint64_t Steps(const std::function<void()>& function) {
  const uint64_t before = blocks;
  function();
  return blocks - before;
}

// A check is quadratic if it takes kNumber steps for each of kNumber entries.
constexpr uint64_t kAtMost = uint64_t{kNumber} * 16 * std::bit_width(kNumber);
static_assert(kAtMost < uint64_t{kNumber} * kNumber / 16);

std::vector<criu_range> Ranges() {
  std::vector<criu_range> ranges(kNumber);
  for (uint32_t i = 0; i < kNumber; i++) ranges[i] = {uint64_t{kNumber - i} * 0x2000, 0x1000, i};
  return ranges;
}

TEST(Steps, OfCheckingRangesAreFew) {
  std::vector<criu_range> ranges = Ranges();
  const criu_range* culprit = nullptr;
  const uint64_t steps = Steps([&] {
    EXPECT_EQ(criu_ranges_check(ranges.data(), kNumber, &culprit), 0);
  });
  EXPECT_GE(steps, kNumber);
  EXPECT_LE(steps, kAtMost);
}

TEST(Steps, OfFindingEveryRangeAreFew) {
  std::vector<criu_range> ranges = Ranges();
  const criu_range* culprit = nullptr;
  ASSERT_EQ(criu_ranges_check(ranges.data(), kNumber, &culprit), 0);
  const uint64_t steps = Steps([&] {
    for (const criu_range& range : ranges)
      EXPECT_NE(criu_ranges_find(ranges.data(), kNumber, range.start, range.size), nullptr);
  });
  EXPECT_GE(steps, kNumber);
  EXPECT_LE(steps, kAtMost);
}

}  // namespace
