// SPDX-License-Identifier: GPL-2.0
#include <cerrno>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "criu_blob.h"
}

namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

int Check(std::vector<criu_range> ranges, uint32_t* culprit = nullptr) {
  const criu_range* found = nullptr;
  const int ret = criu_ranges_check(ranges.data(), static_cast<uint32_t>(ranges.size()), &found);
  EXPECT_EQ(found == nullptr, ret == 0);
  if (culprit && found) *culprit = found->index;
  return ret;
}

std::vector<criu_range> Ids(const std::vector<uint64_t>& ids) {
  std::vector<criu_range> ranges;
  for (uint64_t id : ids) ranges.push_back({id, 1, static_cast<uint32_t>(ranges.size())});
  return ranges;
}

TEST(Ids, AreFoundWithTheirIndex) {
  const std::vector<uint64_t> ids = {77, 3, kMax, 5, 0, uint64_t{1} << 32};
  std::vector<criu_range> ranges = Ids(ids);
  const criu_range* culprit = nullptr;
  ASSERT_EQ(criu_ranges_check(ranges.data(), 6, &culprit), 0);
  for (uint32_t i = 0; i < ids.size(); i++) {
    const criu_range* found = criu_ranges_find(ranges.data(), 6, ids[i], 1);
    ASSERT_NE(found, nullptr) << ids[i];
    EXPECT_EQ(found->index, i);
  }
  for (uint64_t id : {uint64_t{1}, uint64_t{4}, uint64_t{78}, kMax - 1})
    EXPECT_EQ(criu_ranges_find(ranges.data(), 6, id, 1), nullptr) << id;
}

TEST(Ids, AreDifferent) {
  uint32_t culprit = 99;
  EXPECT_EQ(Check(Ids({9, 4, 1000, 4, 8}), &culprit), -EBADMSG);
  EXPECT_TRUE(culprit == 1 || culprit == 3);
  EXPECT_EQ(Check(Ids({0, kMax, kMax})), -EBADMSG);
}

TEST(Ranges, AcceptsNeighboursInAnyOrder) {
  EXPECT_EQ(Check({{0x3000, 0x1000, 0}, {0x1000, 0x2000, 1}, {0, 0x1000, 2}}), 0);
  EXPECT_EQ(Check({}), 0);
}

TEST(Ranges, MayReachTheEndOfTheAddressSpace) { EXPECT_EQ(Check({{kMax, 1, 0}, {0, kMax, 1}}), 0); }

TEST(Ranges, RefusesAnOverlapOfOneByteAndNamesIt) {
  uint32_t culprit = 99;
  EXPECT_EQ(Check({{0x1fff, 0x1000, 0}, {0x1000, 0x1000, 1}}, &culprit), -EBADMSG);
  EXPECT_EQ(culprit, 0u);
}

TEST(Ranges, RefusesARangeInsideAnother) {
  EXPECT_EQ(Check({{0, 0x10000, 0}, {0x1000, 0x1000, 1}, {0x20000, 1, 2}}), -EBADMSG);
}

TEST(Ranges, RefusesAnEmptyRange) { EXPECT_EQ(Check({{0x1000, 0, 0}}), -EBADMSG); }

TEST(Ranges, RefusesARangeThatWrapsAround) {
  EXPECT_EQ(Check({{kMax, 2, 0}}), -EBADMSG);
  EXPECT_EQ(Check({{0x1000, kMax, 0}}), -EBADMSG);
}

TEST(Ranges, ContainWhatIsInsideOfOneOfThem) {
  const std::vector<criu_range> ranges = {{0x1000, 0x1000, 0}, {0x3000, 0x2000, 1}};
  const auto contain = [&](uint64_t start, uint64_t size) {
    return criu_ranges_find(ranges.data(), 2, start, size) != nullptr;
  };
  EXPECT_TRUE(contain(0x1000, 0x1000));
  EXPECT_TRUE(contain(0x3000, 0x2000));
  EXPECT_TRUE(contain(0x4fff, 1));
  EXPECT_FALSE(contain(0xfff, 2));
  EXPECT_FALSE(contain(0x1800, 0x1000));
  EXPECT_FALSE(contain(0x2000, 1));
  EXPECT_FALSE(contain(0x4000, 0x1001));
  EXPECT_FALSE(contain(0x4000, kMax));
  EXPECT_FALSE(contain(0x5000, 1));
  EXPECT_EQ(criu_ranges_find(nullptr, 0, 0x1000, 1), nullptr);
  EXPECT_EQ(criu_ranges_find(ranges.data(), 2, 0x3800, 0x800), &ranges[1]);
}

}  // namespace
