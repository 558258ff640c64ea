// SPDX-License-Identifier: GPL-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernel/kernel_api.h"

namespace amdgpu_criu::kernel {
namespace {

// Operations fail with the next of the errors, and then with the last one.
class RepeatedOperations : public ::testing::Test {
 protected:
  ~RepeatedOperations() override { set_call_filter({}); }

  void fail_with(std::vector<int> errors) {
    calls_ = 0;
    set_call_filter([this, errors = std::move(errors)](const char*) -> Status {
      return Error(errors[std::min(calls_++, errors.size() - 1)], "refused");
    });
  }

  int resume() { return api_->resume(Node{-1, Node::Kind::kKfd}, -1, 1).error().code(); }
  int restore() { return api_->restore(Node{-1, Node::Kind::kKfd}, -1, {}, {}, {}).error().code(); }

  size_t calls_ = 0;
  std::unique_ptr<Api> api_ = make_ioctl_api();
};

TEST_F(RepeatedOperations, AnErrorThatPassesIsNotTheEndOfARestore) {
  fail_with({ENOMEM, EBUSY, ENODEV});
  EXPECT_EQ(restore(), ENODEV);
  EXPECT_EQ(calls_, 3u);
}

TEST_F(RepeatedOperations, AnErrorThatPassesIsNotTheEndOfAProcess) {
  fail_with({EAGAIN, ETIME, EIO});
  EXPECT_EQ(resume(), EIO);
  EXPECT_EQ(calls_, 3u);
}

TEST_F(RepeatedOperations, AnErrorThatStaysIsReturned) {
  fail_with({EAGAIN});
  EXPECT_EQ(resume(), EAGAIN);
  EXPECT_EQ(calls_, 4u);
}

TEST_F(RepeatedOperations, OtherErrorsAreFinal) {
  fail_with({EIO});
  EXPECT_EQ(resume(), EIO);
  EXPECT_EQ(restore(), EIO);
  EXPECT_EQ(calls_, 2u);
}

// The kernel has resumed the process, but its queues do not run.
TEST_F(RepeatedOperations, TheErrorOfAProcessThatWasResumedIsReturned) {
  fail_with({ETIME, EBADFD});
  EXPECT_EQ(resume(), ETIME);
  EXPECT_EQ(calls_, 2u);
}

}  // namespace
}  // namespace amdgpu_criu::kernel
