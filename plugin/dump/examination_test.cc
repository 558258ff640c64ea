// SPDX-License-Identifier: GPL-2.0
// Dry runs of a dump of a child that has this process's files, with a kernel made of memfds.
#include "dump/examination.h"

#include <gmock/gmock.h>

#include "tests/child_test.h"
#include "tests/refused_call.h"

namespace amdgpu_criu::dump {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Examine : public testing_support::ChildTest {
 protected:
  Examine() : ChildTest(0x1000) {}

  Examination examine_child(const options::Options& options = {}) {
    const host::Host host = host::Host::create(host_config());
    const auto api = make_fake_api(state_);
    return examine(*api, host, options, std::vector{child_});
  }
  void expect_untouched() {
    EXPECT_FALSE(state_.anything_paused());
    EXPECT_EQ(state_.open_sessions(), 0);
    EXPECT_THAT(images_.names(), IsEmpty());
  }
};

TEST_F(Examine, CountsWhatADumpWouldCarry) {
  const Examination found = examine_child();
  EXPECT_THAT(found.refusals, IsEmpty());
  ASSERT_EQ(found.renders.size(), 1u);
  EXPECT_EQ(found.renders[0].pid, static_cast<uint32_t>(child_));
  EXPECT_EQ(found.contents(), 0x3000u);
  expect_untouched();
}

TEST_F(Examine, RefusesStateThatTheKernelRefuses) {
  state_.failures["CHECKPOINT"] = EOPNOTSUPP;
  EXPECT_THAT(examine_child().refusals, ElementsAre(HasSubstr("CHECKPOINT")));
  expect_untouched();
}

TEST_F(Examine, RefusesSharingWithOthers) {
  state_.outside = {.num_bos = 1, .pid = 1, .paused_pid = child_, .handle = 4, .size = 4096};
  EXPECT_THAT(examine_child().refusals, ElementsAre(HasSubstr("shares GPU memory")));
  expect_untouched();
}

TEST_F(Examine, WhatADumpOnlyWarnsOfIsNoRefusal) {
  state_.features |= AMDGPU_CRIU_FEATURE_UNTESTED;
  state_.outside = {.num_bos = 1, .pid = 1, .paused_pid = child_, .handle = 4, .size = 4096};
  options::Options options;
  options.cut_sharing = true;
  EXPECT_THAT(examine_child(options).refusals, IsEmpty());
  EXPECT_THAT(log(), HasSubstr("untested"));
  EXPECT_THAT(log(), HasSubstr("cut-sharing allows"));
}

TEST_F(Examine, RefusesMemoryWhoseIndexIsTooLarge) {
  state_.renders[0].bos[1].size = 1ull << 42;
  EXPECT_THAT(examine_child().refusals, ElementsAre(HasSubstr("by amdgpu.chunk-kib")));
  expect_untouched();
}

TEST_F(Examine, NamesTheErrorIfAProcessCannotBeOpened) {
  end_child();
  state_.renders.clear();
  render_.reset();
  start_child();
  const bool refused = testing_support::without({SYS_pidfd_open, 0, EPERM}, [&] {
    EXPECT_THAT(examine_child().refusals,
                ElementsAre(testing::AllOf(HasSubstr("cannot open process"),
                                           HasSubstr("Operation not permitted"))));
  });
  EXPECT_TRUE(refused);
}

// A dump leaves it to other plugins of CRIU, with a warning.
TEST_F(Examine, RefusesADmabufOfAnotherDriver) {
  state_.foreign = {2};
  EXPECT_THAT(examine_child().refusals, ElementsAre(HasSubstr("descriptor of a dma-buf")));
  expect_untouched();
}

}  // namespace
}  // namespace amdgpu_criu::dump
