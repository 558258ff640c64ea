// SPDX-License-Identifier: GPL-2.0
// The ring of the JPEG engine, with packets as the driver writes them.
#include "engines/jpeg.h"

#include "engines/video_ring_fixture.h"

namespace gpu::test {
namespace {

constexpr uint32_t kDoorbell = 0xc44;
constexpr uint8_t kDecoded = 153;
constexpr uint32_t kPitch = 0x401f;  // as packets name UVD_JPEG_PITCH
constexpr uint32_t kNop = 6u << 28;
constexpr uint32_t kTrap = 7u << 28;
constexpr uint32_t kWaitRegister = 3u << 28 | 3 << 24;

class JpegTest : public VideoRing<JpegRegisters> {
 protected:
  JpegTest() : VideoRing(navi31().jpeg, kDoorbell) {}

  uint32_t pitch() { return get(at_.segment + kPitch - 0x3a40); }
  static std::vector<uint32_t> fence(uint32_t value) {
    return {0x402a, value, 0x402b, value, 0x40ea, kFence, 0x40eb, 0, 0x4029, 8, 4u << 28 | 0x4029,
            0};
  }
};

TEST_F(JpegTest, ExecutesRegisterWritesAndWrapsAround) {
  submit({kPitch, 0xabadcafe});
  ASSERT_TRUE(idle());
  EXPECT_EQ(pitch(), 0xabadcafeu);
  for (uint32_t i = 0; i < kRingDwords; i += 16) {
    submit({kPitch, i, kNop, 0, kNop, 0, kNop, 0, kNop, 0, kNop, 0, kNop, 0, kNop, 0});
    ASSERT_TRUE(idle());
    EXPECT_EQ(pitch(), i);
  }
}

TEST_F(JpegTest, AFenceIsWrittenBeforeItsInterrupt) {
  uint32_t seen = 0;
  gpu_.interrupts.watch = [&](const Interrupt& interrupt) {
    if (interrupt.source == kDecoded) seen = gpu_.memory.get<uint32_t>(0, kFence);
  };
  submit(fence(7) + std::vector<uint32_t>{kTrap, 0});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(kDecoded) == 1; }));
  EXPECT_EQ(seen, 7u);
}

TEST_F(JpegTest, ExecutesAnIndirectBuffer) {
  gpu_.memory.put<uint32_t>(0, kBuffer, kPitch);
  gpu_.memory.put<uint32_t>(0, kBuffer + 4, 0xdeadbeef);
  submit({0x40cf, 0, 0x40e8, kBuffer, 0x40e9, 0, 0x4082, 2, 2u << 28, 0});
  ASSERT_TRUE(idle());
  EXPECT_EQ(pitch(), 0xdeadbeefu);
}

TEST_F(JpegTest, WritesOtherRegistersAndWaitsForThem) {
  const uint32_t other = 0x3f000;
  submit({0x1bfff, other * 4, 0x18000, 5, 0x4084, 5, kWaitRegister | 0x18000, 0xff});
  ASSERT_TRUE(idle());
  EXPECT_EQ(get(other), 5u);
  EXPECT_TRUE(gpu_.reports().empty());
  submit({0x4084, 6, kWaitRegister | 0x18000, 0xff, kPitch, 1});
  ASSERT_TRUE(reported());
  EXPECT_EQ(pitch(), 0u) << "the ring hangs";
}

TEST_F(JpegTest, ReportsBadPackets) {
  submit({5u << 28, 0});
  ASSERT_TRUE(reported());
}

TEST_F(JpegTest, AWriteToNoRegisterOfTheEngineIsReported) {
  submit({0x1234, 0});
  ASSERT_TRUE(reported());
}

}  // namespace
}  // namespace gpu::test
