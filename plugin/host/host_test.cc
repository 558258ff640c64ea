// SPDX-License-Identifier: GPL-2.0
#include "host/host.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "tests/temp_dir.h"

namespace amdgpu_criu::host {
namespace {

class HostTest : public testing::Test {
 protected:
  HostTest() : host_(Host::create(config())) {}

  // What sysfs has for render node 129: a link to its device, which may have a driver.
  void add_node(const std::string& device, const std::string& driver) {
    const std::filesystem::path target = devices_.file(device);
    std::filesystem::create_directories(target);
    if (!driver.empty()) std::filesystem::create_symlink("drivers/" + driver, target / "driver");
    std::filesystem::create_directories(devices_.file("226:129"));
    std::filesystem::create_symlink(target, devices_.file("226:129/device"));
  }
  std::optional<NodeId> classify() const {
    struct stat status = {};
    status.st_mode = S_IFCHR;
    status.st_rdev = makedev(226, 129);
    return host_.classify(status);
  }

  Config config() const {
    Config result;
    result.sys_devices = devices_.path();
    return result;
  }

  testing_support::TempDir devices_;
  Host host_;
};

TEST_F(HostTest, ANodeOfTheDriverIsOurs) {
  add_node("0000:01:00.0", "amdgpu");
  EXPECT_EQ(classify()->minor, 129u);
}

TEST_F(HostTest, ANodeOfAPartitionHasNoDriverAndIsOurs) {
  add_node("amdgpu_xcp_0", "");
  ASSERT_TRUE(classify());
  EXPECT_EQ(classify()->kind, NodeKind::kRender);
}

TEST_F(HostTest, ANodeOfAnotherDriverIsNotOurs) {
  add_node("0000:02:00.0", "i915");
  EXPECT_FALSE(classify());
}

}  // namespace
}  // namespace amdgpu_criu::host
