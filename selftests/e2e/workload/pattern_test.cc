// SPDX-License-Identifier: GPL-2.0
#include "workload/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace e2e {
namespace {

TEST(Pattern, CheckAcceptsWhatFillWrote) {
  std::vector<std::byte> bytes(69632);
  Pattern(7).fill(bytes);
  EXPECT_FALSE(Pattern(7).check(bytes));
}

TEST(Pattern, CheckFindsEveryFlippedByte) {
  std::vector<std::byte> bytes(4096);
  for (size_t i = 0; i < bytes.size(); ++i) {
    Pattern(1).fill(bytes);
    bytes[i] ^= std::byte{0x40};
    const auto damage = Pattern(1).check(bytes);
    ASSERT_TRUE(damage) << i;
    EXPECT_EQ(damage->bytes, 1u);
    EXPECT_EQ(damage->first_offset, i / 8 * 8);
  }
}

TEST(Pattern, CheckCountsAllBytesOfALostPage) {
  std::vector<std::byte> bytes(16384);
  Pattern(3).fill(bytes);
  std::fill(bytes.begin() + 4096, bytes.begin() + 8192, std::byte{0});
  const auto damage = Pattern(3).check(bytes);
  ASSERT_TRUE(damage);
  EXPECT_EQ(damage->first_offset, 4096u);
  EXPECT_EQ(damage->found, 0u);
  EXPECT_GT(damage->bytes, 4000u);  // a byte in 256 is 0 anyway
}

TEST(Pattern, CheckFindsThePageOfAnotherBo) {
  std::vector<std::byte> bytes(4096);
  Pattern(4).fill(bytes);
  EXPECT_TRUE(Pattern(5).check(bytes));
}

TEST(Pattern, CheckFindsAPageAtAnotherPlace) {
  std::vector<std::byte> bytes(4096);
  Pattern(4).fill(bytes, 4096);
  EXPECT_TRUE(Pattern(4).check(bytes, 8192));
  EXPECT_FALSE(Pattern(4).check(bytes, 4096));
}

TEST(Pattern, FillingInPartsEqualsFillingAtOnce) {
  std::vector<std::byte> whole(8192), pieces(8192);
  Pattern(9).fill(whole);
  Pattern(9).fill(std::span(pieces).first(1000), 0);
  Pattern(9).fill(std::span(pieces).subspan(1000), 1000);
  EXPECT_EQ(whole, pieces);
}

}  // namespace
}  // namespace e2e
