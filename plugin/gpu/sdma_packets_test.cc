// SPDX-License-Identifier: GPL-2.0
#include "gpu/sdma_packets.h"

#include <gtest/gtest.h>

#include <vector>

namespace amdgpu_criu::gpu {
namespace {

class SdmaPackets : public testing::Test {
 protected:
  std::vector<uint32_t> ib_ = std::vector<uint32_t>(64, 0xdead);
  std::vector<uint32_t> first(uint32_t dwords) const { return {ib_.begin(), ib_.begin() + dwords}; }
};

TEST_F(SdmaPackets, OneCopyIsSevenDwordsPaddedToEight) {
  IbBuilder builder(ib_, true);
  builder.copy(0x1'0000'1000, 0x2'0000'2000, 4096);
  EXPECT_EQ(builder.finish(), 8u);
  EXPECT_EQ(first(9), (std::vector<uint32_t>{1, 4095, 0, 0x1000, 1, 0x2000, 2, 0, 0xdead}));
}

TEST_F(SdmaPackets, OneFillIsFiveDwords) {
  IbBuilder builder(ib_, true);
  builder.fill_with_zeros(0x3'0000'1000, 8192);
  EXPECT_EQ(builder.finish(), 8u);
  EXPECT_EQ(first(9), (std::vector<uint32_t>{11, 0x1000, 3, 0, 8191, 0, 0, 0, 0xdead}));
}

TEST_F(SdmaPackets, OlderGenerationsCountBytesAsTheyAre) {
  IbBuilder builder(ib_, false);
  builder.copy(0, 0, 4096);
  builder.fill_with_zeros(0, 4096);
  EXPECT_EQ(builder.finish(), 16u);
  EXPECT_EQ(ib_[1], 4096u);
  EXPECT_EQ(ib_[7 + 4], 4096u);
}

TEST_F(SdmaPackets, LargeCopiesAreSplitWithoutGap) {
  const uint64_t bytes = 2 * kPacketBytes + 4096;
  EXPECT_EQ(packets_for(bytes), 3u);
  IbBuilder builder(ib_, true);
  builder.copy(0xffff'f000, 0, bytes);
  EXPECT_EQ(builder.finish(), 24u);
  EXPECT_EQ(ib_[7 + 3], 0xffff'f000 + kPacketBytes);
  EXPECT_EQ(ib_[7 + 4], 1u);
  EXPECT_EQ(ib_[14 + 1], 4095u);
  EXPECT_EQ(ib_[14 + 5], 2 * kPacketBytes);
}

TEST_F(SdmaPackets, ACommandBufferHasRoomForTheMostPackets) {
  std::vector<uint32_t> ib(kIbDwords);
  IbBuilder builder(ib, true);
  for (uint32_t i = 0; i < kMaxPackets; i++) builder.copy(0, 0, 4096);
  EXPECT_EQ(builder.finish(), kIbDwords);
}

}  // namespace
}  // namespace amdgpu_criu::gpu
