// SPDX-License-Identifier: GPL-2.0
#include "tool/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/planner.h"

namespace amdgpu_criu::tool {
namespace {

class StackId : public testing::Test {
 protected:
  StackId() {
    kernel_.abi_min = kernel_.abi_max = kernel_.blob_format = 1;
    kernel_.records = {{0x101, 1, 2, 64}, {0x105, 1, 1, 128}};
    gpu_.gpu_id = 7;
    gpu_.pci_address = "0000:03:00.0";
    gpu_.properties = {{"gfx_target_version", 90010}, {"device_id", 0x740f}, {"fw_version", 78}};
  }
  std::string id() const { return stack_id(kernel_, "7.3.0", {&gpu_, 1}); }

  kernel::Query kernel_;
  topology::Gpu gpu_;
};

TEST_F(StackId, HasTheFormThatSchedulersAccept) {
  EXPECT_THAT(id(), testing::MatchesRegex("amdgpu-criu:2:[0-9a-f]+"));
  EXPECT_LE(id().size(), kMaxStackId);
  EXPECT_EQ(id(), id());
}

TEST_F(StackId, DependsOnlyOnWhatARestoreNeeds) {
  const std::string before = id();
  std::swap(kernel_.records[0], kernel_.records[1]);
  gpu_.gpu_id = 8;
  gpu_.pci_address = "0000:83:00.0";
  gpu_.properties["numa_node"] = 3;
  EXPECT_EQ(id(), before);
  const std::vector<topology::Gpu> eight(8, gpu_);
  EXPECT_EQ(stack_id(kernel_, "6.12.0", eight), before);
}

TEST_F(StackId, DiffersForAnotherStack) {
  std::set<std::string> ids{id()};
  kernel_.records[0].version_max++;
  ids.insert(id());
  kernel_.records.pop_back();
  ids.insert(id());
  kernel_.features |= AMDGPU_CRIU_FEATURE_RENDER;
  ids.insert(id());
  gpu_.properties["fw_version"]++;
  ids.insert(id());
  gpu_.properties["gfx_target_version"] = 90402;
  ids.insert(id());
  for (const char* release : {"7.3.0", "7.3.1"})
    ids.insert(stack_id(std::nullopt, release, {&gpu_, 1}));
  EXPECT_EQ(ids.size(), 8u);
}

TEST_F(StackId, EqualIdsMeanThatThePlannerAccepts) {
  const auto properties = topology::compared_properties();
  for (const std::string& property : properties) gpu_.properties[property] = 16;
  const topology::Gpu here = gpu_;
  const std::string before = id();
  unsigned refused = 0;
  for (const std::string& property : properties)
    for (const uint64_t value : {15, 17}) {
      gpu_ = here;
      gpu_.properties[property] = value;
      if (topology::plan(std::span(&here, 1), std::span(&gpu_, 1)).ok()) continue;
      EXPECT_NE(id(), before) << property;
      refused++;
    }
  EXPECT_GE(refused, properties.size());
}

}  // namespace
}  // namespace amdgpu_criu::tool
