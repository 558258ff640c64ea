// SPDX-License-Identifier: GPL-2.0
#include "workload/packets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace e2e {
namespace {

using testing::ElementsAre;

constexpr uint64_t kAddress = 0x7f1234567800;

TEST(Pm4Stream, WaitPollsMemoryForTheReference) {
  EXPECT_THAT(Pm4Stream().wait(kAddress, Compare::kEqual, 77).dwords(),
              ElementsAre(0xc0053c00, 0x13, 0x34567800, 0x7f12, 77, 0xffffffff, 4));
}

TEST(Pm4Stream, Copy64MovesMemoryToMemory) {
  EXPECT_THAT(Pm4Stream().copy64(kAddress + 8, kAddress).dwords(),
              ElementsAre(0xc0044000, 0x110501, 0x34567800, 0x7f12, 0x34567808, 0x7f12));
}

TEST(Pm4Stream, Add64IsAnAtomicWithBothHalvesOfTheAddend) {
  EXPECT_THAT(Pm4Stream().add64(kAddress, 0x1122334455667788).dwords(),
              ElementsAre(0xc0071e00, 0x2f, 0x34567800, 0x7f12, 0x55667788, 0x11223344, 0, 0, 0));
}

TEST(Pm4Stream, Write64ConfirmsTheWrite) {
  EXPECT_THAT(Pm4Stream().write64(kAddress, 5).dwords(),
              ElementsAre(0xc0043700, 0x100500, 0x34567800, 0x7f12, 5, 0));
}

TEST(Pm4Stream, DmaCopiesMemoryAndTheCpWaitsForIt) {
  EXPECT_THAT(Pm4Stream().dma(kAddress + 0x1000, kAddress, 0x800).dwords(),
              ElementsAre(0xc0055000, 1u << 31, 0x34567800, 0x7f12, 0x34568800, 0x7f12, 0x800));
}

TEST(Pm4Stream, ReleaseRaisesNoInterrupt) {
  const Dwords dwords = Pm4Stream().release(kAddress, 9).dwords();
  ASSERT_EQ(dwords.size(), 8u);
  EXPECT_EQ(dwords[0], 0xc0064900);
  EXPECT_EQ(dwords[2], 1u << 29);
  EXPECT_EQ(dwords[5], 9u);
  EXPECT_EQ(dwords[7], 0u);
}

TEST(Pm4Stream, ReleaseAndInterruptCarriesTheContextId) {
  const Dwords dwords = Pm4Stream().release_and_interrupt(kAddress, 9, 3).dwords();
  ASSERT_EQ(dwords.size(), 8u);
  EXPECT_EQ(dwords[2], 1u << 29 | 2u << 24);
  EXPECT_EQ(dwords[7], 3u);
}

TEST(Pm4Stream, PadFillsTheRestWithOneNop) {
  for (size_t used : {0, 1, 7, 61, 62, 63, 64}) {
    Pm4Stream stream;
    while (stream.dwords().size() < used) stream.pad(stream.dwords().size() + 1);
    EXPECT_EQ(stream.pad(64).dwords().size(), 64u) << used;
  }
  EXPECT_THAT(Pm4Stream().pad(1).dwords(), ElementsAre(0xffff1000));
  EXPECT_THAT(Pm4Stream().pad(3).dwords(), ElementsAre(0xc0011000, 0, 0));
}

TEST(SdmaStream, PollWaitsForeverOnMemory) {
  EXPECT_THAT(SdmaStream().poll(kAddress, Compare::kGreaterOrEqual, 12).dwords(),
              ElementsAre(0xd0000008, 0x34567800, 0x7f12, 12, 0xffffffff, 0x0fff000a));
}

TEST(SdmaStream, CopyCountsBytesMinusOne) {
  EXPECT_THAT(SdmaStream().copy(kAddress + 4096, kAddress, 4096).dwords(),
              ElementsAre(1, 4095, 0, 0x34567800, 0x7f12, 0x34568800, 0x7f12));
}

TEST(SdmaStream, ALargeCopyIsSeveralPackets) {
  EXPECT_THAT(SdmaStream().copy(0x10000000, 0x20000000, (4 << 20) + 4096).dwords(),
              ElementsAre(1, 0x1fffff, 0, 0x20000000, 0, 0x10000000, 0,  //
                          1, 0x1fffff, 0, 0x20200000, 0, 0x10200000, 0,  //
                          1, 4095, 0, 0x20400000, 0, 0x10400000, 0));
}

TEST(SdmaStream, Add64FenceAndTrap) {
  EXPECT_THAT(SdmaStream().add64(kAddress, 2).dwords(),
              ElementsAre(0x5e00000a, 0x34567800, 0x7f12, 2, 0, 0, 0, 0));
  EXPECT_THAT(SdmaStream().fence(kAddress, 3).dwords(), ElementsAre(5, 0x34567800, 0x7f12, 3));
  EXPECT_THAT(SdmaStream().trap(4).dwords(), ElementsAre(6, 4));
}

TEST(Aql, BarrierWaitsForOneDependencyInOrder) {
  const AqlBarrierPacket packet = barrier_and(0x1000, 0x2000);
  EXPECT_EQ(packet.header, 3 | 1 << 8 | 2 << 9 | 2 << 11);
  EXPECT_EQ(packet.dependencies[0], 0x1000u);
  EXPECT_EQ(packet.dependencies[1], 0u);
  EXPECT_EQ(packet.completion_signal, 0x2000u);
}

}  // namespace
}  // namespace e2e
