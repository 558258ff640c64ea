// SPDX-License-Identifier: GPL-2.0
#include "gpu/sdma_packets.h"

#include <gtest/gtest.h>

namespace gpu {
namespace {

TEST(SdmaPackets, OneCopyIsSevenDwordsPaddedToEight) {
  std::vector<uint32_t> ib(copy_ib_dwords(4096), 0xdead);
  EXPECT_EQ(build_copy_ib(ib, 0x1'0000'1000, 0x2'0000'2000, 4096, true), 8u);
  EXPECT_EQ(ib, (std::vector<uint32_t>{1, 4095, 0, 0x1000, 1, 0x2000, 2, 0}));
}

TEST(SdmaPackets, OlderGenerationsCountBytesAsTheyAre) {
  std::vector<uint32_t> ib(copy_ib_dwords(4096));
  build_copy_ib(ib, 0, 0, 4096, false);
  EXPECT_EQ(ib[1], 4096u);
}

TEST(SdmaPackets, LargeCopiesAreSplitWithoutGap) {
  const uint64_t bytes = 2 * kCopyPacketBytes + 4096;
  std::vector<uint32_t> ib(copy_ib_dwords(bytes));
  ASSERT_EQ(ib.size(), 24u);
  EXPECT_EQ(build_copy_ib(ib, 0xffff'f000, 0, bytes, true), 24u);
  EXPECT_EQ(ib[7 + 3], 0xffff'f000 + kCopyPacketBytes);
  EXPECT_EQ(ib[7 + 4], 1u);
  EXPECT_EQ(ib[14 + 1], 4095u);
  EXPECT_EQ(ib[14 + 5], 2 * kCopyPacketBytes);
}

}  // namespace
}  // namespace gpu
