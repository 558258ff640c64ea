// SPDX-License-Identifier: GPL-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <system_error>

#include "snapshot/program.h"

namespace {

// How many threads this process may create; -1: any number.
std::atomic<int> threads_left = -1;

}  // namespace

// What std::thread creates a thread by. The linker replaces it.
#define START_THREAD(kind) \
  kind##_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
extern "C" {
void START_THREAD(__real_)(void* thread, void* state, void (*depend)());
void START_THREAD(__wrap_)(void* thread, void* state, void (*depend)()) {
  if (threads_left == 0) throw std::system_error(EAGAIN, std::generic_category());
  if (threads_left > 0) threads_left--;
  START_THREAD(__real_)(thread, state, depend);
}
}

namespace amdgpu_criu::snapshot {
namespace {

TEST(RunAll, ReturnsTheErrorOfOneThatHasNoThread) {
  for (const int created : {0, 2}) {
    std::atomic<int> called = 0;
    threads_left = created;
    const Status status = run_all(3, [&](size_t) {
      called++;
      return Status();
    });
    threads_left = -1;
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
