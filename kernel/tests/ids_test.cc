// SPDX-License-Identifier: GPL-2.0
#include <cerrno>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "criu_ids.h"
}

namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

class IdSet : public ::testing::Test {
 protected:
  void Make(const std::vector<uint64_t>& ids) {
    storage_.resize(ids.size());
    set_ = {.ids = storage_.data(), .num = 0, .room = static_cast<uint32_t>(ids.size())};
    for (uint32_t i = 0; i < ids.size(); i++) ASSERT_EQ(criu_id_set_add(&set_, ids[i], i), 0);
  }
  std::vector<criu_id> storage_;
  criu_id_set set_ = {};
  __u64 duplicate_ = 0;
};

TEST_F(IdSet, FindsItsIdsWithTheirIndex) {
  const std::vector<uint64_t> ids = {77, 3, kMax, 5, 0, uint64_t{1} << 32};
  Make(ids);
  ASSERT_EQ(criu_id_set_seal(&set_, &duplicate_), 0);
  for (uint32_t i = 0; i < ids.size(); i++) {
    const criu_id* found = criu_id_set_find(&set_, ids[i]);
    ASSERT_NE(found, nullptr) << ids[i];
    EXPECT_EQ(found->index, i);
  }
  for (uint64_t id : {uint64_t{1}, uint64_t{4}, uint64_t{78}, kMax - 1})
    EXPECT_EQ(criu_id_set_find(&set_, id), nullptr) << id;
}

TEST_F(IdSet, AnEmptySetHasNoIds) {
  EXPECT_EQ(criu_id_set_seal(&set_, &duplicate_), 0);
  EXPECT_EQ(criu_id_set_find(&set_, 0), nullptr);
}

TEST_F(IdSet, NamesADuplicate) {
  Make({9, 4, 1000, 4, 8});
  EXPECT_EQ(criu_id_set_seal(&set_, &duplicate_), -EBADMSG);
  EXPECT_EQ(duplicate_, 4u);
}

TEST_F(IdSet, RefusesMoreIdsThanItHasRoomFor) {
  Make({1, 2});
  EXPECT_EQ(criu_id_set_add(&set_, 3, 2), -EBADMSG);
}

int Check(std::vector<criu_range> ranges, uint32_t* culprit = nullptr) {
  const criu_range* found = nullptr;
  const int ret = criu_ranges_check(ranges.data(), static_cast<uint32_t>(ranges.size()), &found);
  EXPECT_EQ(found == nullptr, ret == 0);
  if (culprit && found) *culprit = found->index;
  return ret;
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
    return criu_ranges_contain(ranges.data(), 2, start, size);
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
  EXPECT_FALSE(criu_ranges_contain(nullptr, 0, 0x1000, 1));
  EXPECT_EQ(criu_ranges_find(ranges.data(), 2, 0x3800, 0x800), &ranges[1]);
}

}  // namespace
