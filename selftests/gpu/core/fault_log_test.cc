// SPDX-License-Identifier: GPL-2.0
#include "core/fault_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpu {
namespace {

using testing::Optional;

class FaultLogTest : public testing::Test {
 protected:
  std::optional<std::string> add(const std::string& text, uint64_t subject) {
    return log_.add(text, subject, now_);
  }
  FaultLog log_{"VM fault"};
  FaultLog::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(FaultLogTest, AFloodOfOneFaultDoesNotHideAnother) {
  EXPECT_THAT(add("page 1", 1), Optional(std::string("VM fault: page 1")));
  for (int i = 0; i < 10000; ++i) EXPECT_EQ(add("page 1", 1), std::nullopt);
  EXPECT_THAT(add("page 2", 2), Optional(std::string("VM fault: page 2")));
  EXPECT_EQ(log_.count(), 10002u);
}

TEST_F(FaultLogTest, AFaultIsPrintedAgainAfterASecond) {
  EXPECT_TRUE(add("page 1", 1));
  now_ += std::chrono::milliseconds(999);
  EXPECT_FALSE(add("page 1", 1));
  now_ += std::chrono::milliseconds(1);
  EXPECT_TRUE(add("page 1", 1));
}

TEST_F(FaultLogTest, WhatIsNotPrintedIsAComplaintOfItsOwn) {
  for (uint64_t page = 0; page < FaultLog::kMaxLinesPerSecond; ++page)
    EXPECT_TRUE(add("a page", page));
  EXPECT_THAT(add("a page", 1000),
              Optional(testing::HasSubstr("VM fault: more than 100 in one second")));
  EXPECT_FALSE(add("a page", 1001)) << "once in a second";
  now_ += std::chrono::seconds(1);
  EXPECT_THAT(add("a page", 1002), Optional(std::string("VM fault: a page")));
}

}  // namespace
}  // namespace gpu
