// SPDX-License-Identifier: GPL-2.0
// A driver that takes no copies from programs. The linker replaces the calls of libdrm that a test
// of this needs; others get what libdrm returns.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/engine.h"

namespace {

bool rings_are_refused = false;
char device;  // only its address matters

}  // namespace

extern "C" {
int __real_amdgpu_device_initialize(int, uint32_t*, uint32_t*, amdgpu_device_handle*);
int __real_amdgpu_device_deinitialize(amdgpu_device_handle);
int __real_amdgpu_query_hw_ip_info(amdgpu_device_handle, unsigned, unsigned,
                                   drm_amdgpu_info_hw_ip*);

int __wrap_amdgpu_device_initialize(int fd, uint32_t* major, uint32_t* minor,
                                    amdgpu_device_handle* result) {
  if (!rings_are_refused) return __real_amdgpu_device_initialize(fd, major, minor, result);
  *result = reinterpret_cast<amdgpu_device_handle>(&device);
  return 0;
}
int __wrap_amdgpu_device_deinitialize(amdgpu_device_handle handle) {
  return rings_are_refused ? 0 : __real_amdgpu_device_deinitialize(handle);
}
int __wrap_amdgpu_query_hw_ip_info(amdgpu_device_handle handle, unsigned type, unsigned instance,
                                   drm_amdgpu_info_hw_ip* info) {
  if (!rings_are_refused) return __real_amdgpu_query_hw_ip_info(handle, type, instance, info);
  *info = {};
  return type == AMDGPU_HW_IP_DMA ? 0 : -EINVAL;
}
}

namespace amdgpu_criu::gpu {
namespace {

class RefusedRings : public testing::Test {
 protected:
  void SetUp() override { rings_are_refused = true; }
  void TearDown() override { rings_are_refused = false; }

  void expect_refused(const Error& error) {
    EXPECT_EQ(error.code(), ENOTSUP);
    EXPECT_THAT(error.message(), testing::HasSubstr("amdgpu.user_queue=2"));
  }
  Fd node_ = std::move(*Fd::open("/dev/null", O_RDWR));
};

TEST_F(RefusedRings, AreNamedByTheCheck) { expect_refused(check_sdma(node_).error()); }

TEST(Losses, CannotBeCountedWithoutAGpu) {
  const auto count = count_losses(*Fd::open("/dev/null", O_RDWR));
  ASSERT_FALSE(count.ok());
  EXPECT_EQ(count.error().code(), ENOTTY);
}

TEST_F(RefusedRings, AreNamedWhenAnEngineIsMade) {
  const auto engine = make_sdma_engine(std::move(node_), {});
  ASSERT_FALSE(engine.ok());
  expect_refused(engine.error());
}

}  // namespace
}  // namespace amdgpu_criu::gpu
