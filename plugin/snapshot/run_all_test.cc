// SPDX-License-Identifier: GPL-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "snapshot/program.h"
#include "tests/few_threads.h"

namespace amdgpu_criu::snapshot {
namespace {

TEST(RunAll, ReturnsTheErrorOfOneThatHasNoThread) {
  for (const int created : {0, 2}) {
    std::atomic<int> called = 0;
    testing_support::threads_left = created;
    const Status status = run_all(3, [&](size_t) {
      called++;
      return Status();
    });
    testing_support::threads_left = -1;
    EXPECT_EQ(called, created);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message(), testing::HasSubstr("cannot create a thread"));
  }
}

TEST(RunAll, ReturnsTheFirstErrorWhenAllHaveReturned) {
  std::atomic<int> called = 0;
  const Status status = run_all(4, [&](size_t i) {
    called++;
    return i < 2 ? Status() : Status(Error::of(EIO, "{}", i));
  });
  EXPECT_EQ(called, 4);
  EXPECT_EQ(status.error().message(), "2");
}

}  // namespace
}  // namespace amdgpu_criu::snapshot
