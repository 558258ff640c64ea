// SPDX-License-Identifier: GPL-2.0
// The unified queue of VCN, with packets as the driver writes them.
#include "engines/vcn.h"

#include "engines/video_ring_fixture.h"

namespace gpu::test {
namespace {

constexpr uint32_t kDoorbell = 0xc48;
constexpr uint32_t kOther = 0x3f000;  // a register of no block
constexpr uint32_t kClock = 1u << 9;
constexpr uint32_t kReset = 1u << 28;
constexpr uint8_t kTrap = 119;
constexpr uint32_t kOff = 2;

class VcnTest : public VideoRing<VcnRegisters> {
 protected:
  VcnTest() : VideoRing(navi31().vcn, kDoorbell) {
    put(at_.vcpu_control, kClock);
    put(at_.enable, 4);
  }

  static std::vector<uint32_t> write(uint32_t value) { return {11, kOther * 4, value}; }
};

TEST_F(VcnTest, ExecutesWritesOfRegistersAndWrapsAround) {
  for (uint32_t i = 1; i < kRingDwords; ++i) {
    submit(write(i) + std::vector<uint32_t>{0, 1});
    ASSERT_TRUE(idle());
    EXPECT_EQ(get(kOther), i);
  }
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(VcnTest, AFenceIsWrittenBeforeItsInterrupt) {
  uint32_t seen = 0;
  gpu_.interrupts.watch = [&](const Interrupt& interrupt) {
    if (interrupt.source == kTrap) seen = gpu_.memory.get<uint32_t>(0, kFence);
  };
  submit({3, kFence, 0, 7, 4, 1});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(kTrap) == 1; }));
  EXPECT_EQ(seen, 7u);
}

TEST_F(VcnTest, PackagesOfABufferHaveNoEffect) {
  gpu_.memory.put_words(0, kBuffer, {16, 0x30000001, 2, 16, 8, 0x08000001, 0, 5});
  submit(std::vector<uint32_t>{2, 0, kBuffer, 0, 8} + write(1));
  ASSERT_TRUE(idle());
  EXPECT_EQ(get(kOther), 1u);
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(VcnTest, APackageThatIsLongerThanItsBufferIsReported) {
  gpu_.memory.put_words(0, kBuffer, {8, 0x08000001, 12, 0x08000002, 0});
  submit({2, 0, kBuffer, 0, 4});
  ASSERT_TRUE(reported());
}

TEST_F(VcnTest, ABufferThatIsNotMappedIsReported) {
  gpu_.memory.punch_hole(0, kBuffer / FakeMemory::kPage);
  submit({2, 0, kBuffer, 0, 4});
  ASSERT_TRUE(reported());
}

TEST_F(VcnTest, WaitsForRegisters) {
  submit(write(5) + std::vector<uint32_t>{12, kOther * 4, 0xff, 0x105});
  ASSERT_TRUE(idle());
  EXPECT_TRUE(gpu_.reports().empty());
  submit(std::vector<uint32_t>{12, kOther * 4, 0xff, 6} + write(7));
  ASSERT_TRUE(reported());
  EXPECT_EQ(get(kOther), 5u) << "the ring hangs";
}

TEST_F(VcnTest, ReportsAnUnknownCommand) {
  submit({5});
  ASSERT_TRUE(reported());
}

TEST_F(VcnTest, ReportsACommandThatIsNotComplete) {
  submit({11, kOther * 4});
  ASSERT_TRUE(reported());
}

TEST_F(VcnTest, AnotherDoorbellStartsNothing) {
  gpu_.memory.put<uint32_t>(0, kRing, 1);
  gpu_.engines->ring(kDoorbell + 8, 1, 4);
  submit(write(1));
  ASSERT_TRUE(idle());
  EXPECT_EQ(get(kOther), 1u);
}

TEST_F(VcnTest, WorkForARingThatIsOffIsReported) {
  put(at_.enable, 0);
  submit(write(1));
  ASSERT_TRUE(reported());
  EXPECT_EQ(get(kOther), 0u);
}

TEST_F(VcnTest, WorkForFirmwareThatIsHeldInResetIsReported) {
  put(at_.vcpu_control, kClock | kReset);
  submit(write(1));
  ASSERT_TRUE(reported());
  EXPECT_EQ(get(kOther), 0u);
}

TEST_F(VcnTest, ItsFirmwareIsIdleOnceItRuns) {
  EXPECT_EQ(get(at_.status), 2u);
  put(at_.vcpu_control, kClock | kReset);
  EXPECT_EQ(get(at_.status), 0u);
  put(at_.vcpu_control, 0);
  EXPECT_EQ(get(at_.status), 0u);
}

// A command of 0 leaves a tile as it is: JPEG and VCN have tiles of their own.
TEST_F(VcnTest, TilesHavePowerAsTheDriverAsks) {
  EXPECT_EQ(get(at_.power + 1), 0u);
  put(at_.power, kOff << 22);
  put(at_.power, 1 | kOff << 4);
  EXPECT_EQ(get(at_.power + 1), kOff << 22 | kOff << 4);
  put(at_.power, 1 << 22);
  EXPECT_EQ(get(at_.power + 1), kOff << 4);
  gpu_.engines->reset();
  EXPECT_EQ(get(at_.power + 1), 0u);
}

}  // namespace
}  // namespace gpu::test
