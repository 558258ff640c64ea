// SPDX-License-Identifier: GPL-2.0
// Work that the driver reports as done, in a context that has seen a reset. The linker replaces the
// calls of libdrm that a test of this needs.
#include "gpu/context.h"

#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <gtest/gtest.h>

namespace {

bool is_replaced = false;
int result_of_fence = 0;
uint64_t state_flags = 0;
char handle;  // only its address matters

}  // namespace

extern "C" {
int __real_amdgpu_cs_ctx_create(amdgpu_device_handle, amdgpu_context_handle*);
int __real_amdgpu_cs_ctx_free(amdgpu_context_handle);
int __real_amdgpu_cs_query_fence_status(amdgpu_cs_fence*, uint64_t, uint64_t, uint32_t*);
int __real_amdgpu_cs_query_reset_state2(amdgpu_context_handle, uint64_t*);

int __wrap_amdgpu_cs_ctx_create(amdgpu_device_handle device, amdgpu_context_handle* context) {
  if (!is_replaced) return __real_amdgpu_cs_ctx_create(device, context);
  *context = reinterpret_cast<amdgpu_context_handle>(&handle);
  return 0;
}
int __wrap_amdgpu_cs_ctx_free(amdgpu_context_handle context) {
  return is_replaced ? 0 : __real_amdgpu_cs_ctx_free(context);
}
int __wrap_amdgpu_cs_query_fence_status(amdgpu_cs_fence* fence, uint64_t timeout, uint64_t flags,
                                        uint32_t* signaled) {
  if (!is_replaced) return __real_amdgpu_cs_query_fence_status(fence, timeout, flags, signaled);
  *signaled = 1;
  return result_of_fence;
}
int __wrap_amdgpu_cs_query_reset_state2(amdgpu_context_handle context, uint64_t* flags) {
  if (!is_replaced) return __real_amdgpu_cs_query_reset_state2(context, flags);
  *flags = state_flags;
  return 0;
}
}

namespace amdgpu_criu::gpu {
namespace {

class ContextState : public testing::Test {
 protected:
  void SetUp() override { is_replaced = true; }
  void TearDown() override { is_replaced = false; }

  static Status wait(uint64_t flags, int fence) {
    state_flags = flags;
    result_of_fence = fence;
    const auto context = std::move(*Context::create(nullptr));
    return context->wait({AMDGPU_HW_IP_DMA, 0, 0, 0, "a copy"}, 1);
  }
};

// The driver has ended work of another program that hung, and nothing else.
TEST_F(ContextState, AResetThatLosesNoMemoryIsNoError) {
  EXPECT_TRUE(wait(0, 0).ok());
  EXPECT_TRUE(wait(AMDGPU_CTX_QUERY2_FLAGS_RESET, 0).ok());
}

TEST_F(ContextState, LostWorkAndLostMemoryAreErrors) {
  constexpr uint64_t kLost = AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST;
  EXPECT_EQ(wait(kLost, 0).error().code(), ENODATA);
  EXPECT_EQ(wait(AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST, 0).error().code(), ENODATA);
  for (const int error : {ENODATA, ETIME, ECANCELED})
    EXPECT_EQ(wait(AMDGPU_CTX_QUERY2_FLAGS_RESET, -error).error().code(), error);
}

}  // namespace
}  // namespace amdgpu_criu::gpu
