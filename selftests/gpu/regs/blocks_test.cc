// SPDX-License-Identifier: GPL-2.0
#include <gtest/gtest.h>

#include "asic/asic.h"
#include "mem/hub.h"
#include "regs/nbio.h"
#include "regs/register_bus.h"
#include "regs/rlc.h"
#include "regs/smu_mailbox.h"
#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::expect;

class NbioTest : public testing::Test {
 protected:
  NbioTest() : vram_(64 << 20), bus_(expect(RegisterBus::create({}))), nbio_(*bus_, vram_, {}) {
    EXPECT_TRUE(nbio_.claim().ok());
  }
  std::vector<std::byte> vram_;
  std::unique_ptr<RegisterBus> bus_;
  Nbio nbio_;
};

TEST_F(NbioTest, ReportsTheMemorySize) { EXPECT_EQ(bus_->read(0xde3), 64u); }

TEST_F(NbioTest, ReachesVramIndirectly) {
  bus_->write(0, 0x80000000 | 0x1000);
  bus_->write(6, 0);
  bus_->write(1, 0xabcd);
  EXPECT_EQ(bus_->read(1), 0xabcdu);
  EXPECT_EQ(vram_[0x1000], std::byte{0xcd});
  bus_->write(6, 1);
  EXPECT_EQ(bus_->read(1), 0u) << "beyond the end";
  bus_->write(1, 1);
  bus_->write(6, 0);
  bus_->write(0, 0x80000000 | 0x1001);
  EXPECT_EQ(bus_->read(1), 0u) << "not aligned";
}

TEST_F(NbioTest, ReachesRegistersIndirectly) {
  bus_->write(0, 0x3000 * 4);
  bus_->write(1, 77);
  EXPECT_EQ(bus_->read(0x3000), 77u);
  EXPECT_EQ(bus_->read(1), 77u);
}

TEST_F(NbioTest, IndirectAccessToItselfEnds) {
  bus_->write(0, 4);
  bus_->write(1, 1);
  EXPECT_EQ(bus_->read(1), 0u);
}

TEST_F(NbioTest, BiosScratchReportsPostedAndHung) {
  EXPECT_EQ(bus_->read(0x53), 0x200u);
  EXPECT_FALSE(nbio_.engine_hung());
  bus_->write(0x4f, 0x20000000);
  EXPECT_TRUE(nbio_.engine_hung());
  nbio_.reset();
  EXPECT_FALSE(nbio_.engine_hung());
  EXPECT_EQ(bus_->read(0x53), 0x200u);
}

TEST_F(NbioTest, ManagementNetworkIsStorageOfBoundedSize) {
  for (uint32_t i = 0; i < 10000; ++i) {
    bus_->write(0xe, 4 * i);
    bus_->write(0xf, i + 1);
  }
  bus_->write(0xe, 4);
  EXPECT_EQ(bus_->read(0xf), 2u);
  bus_->write(0xe, 4 * 9999);
  EXPECT_EQ(bus_->read(0xf), 0u);
}

TEST(Nbio, TheManagementNetworkMayBeElsewhereAndHaveConstants) {
  std::vector<std::byte> vram(4096);
  auto bus = expect(RegisterBus::create({}));
  Nbio nbio(*bus, vram, {.smn_index = 0x14, .smn = {{0x3b10024, 1}}});
  ASSERT_TRUE(nbio.claim().ok());
  bus->write(0x14, 0x3b10024);
  EXPECT_EQ(bus->read(0x15), 1u);
  bus->write(0x15, 0);
  EXPECT_EQ(bus->read(0x15), 0u);
  nbio.reset();
  bus->write(0x14, 0x3b10024);
  EXPECT_EQ(bus->read(0x15), 1u);
}

TEST_F(NbioTest, HdpFlushIsAlwaysDone) {
  bus_->write(0xe26, 0x1000);
  EXPECT_EQ(bus_->read(0xe27) & 0x1000, 0x1000u);
}

TEST(Rlc, SafeModeRequestCompletesAtOnce) {
  auto bus = expect(RegisterBus::create({}));
  const GpuClock clock;
  Rlc rlc(clock);
  ASSERT_TRUE(rlc.claim(*bus).ok());
  bus->write(0xec05, 3);
  EXPECT_EQ(bus->read(0xec05), 2u);
}

TEST(SmuMailbox, EveryMessageSucceedsWithZero) {
  auto bus = expect(RegisterBus::create({}));
  SmuMailboxBlock smu({.message = 0x16282, .argument = 0x16292, .response = 0x1629a});
  ASSERT_TRUE(smu.claim(*bus).ok());
  bus->write(0x1629a, 0);
  bus->write(0x16292, 77);
  EXPECT_EQ(bus->read(0x16292), 77u);
  EXPECT_EQ(bus->read(0x1629a), 0u) << "not before the message";
  bus->write(0x16282, 0xc);
  EXPECT_EQ(bus->read(0x1629a), 1u);
  EXPECT_EQ(bus->read(0x16292), 0u);
  smu.reset();
  EXPECT_EQ(bus->read(0x1629a), 0u);
}

TEST(GoldenClock, HasTheUpperHalfFirst) {
  auto bus = expect(RegisterBus::create({}));
  const GpuClock clock;
  GoldenClock golden(clock, 0x16a2d);
  ASSERT_TRUE(golden.claim(*bus).ok());
  const uint64_t before = clock.ticks();
  const uint64_t upper = bus->read(0x16a2d);
  const uint64_t now = upper << 32 | bus->read(0x16a2e);
  EXPECT_GE(now, before);
  EXPECT_LE(now, clock.ticks());
}

TEST(Rlc, TheClockCountsAndKeepsTheCapturedValue) {
  auto bus = expect(RegisterBus::create({}));
  const GpuClock clock;
  Rlc rlc(clock);
  ASSERT_TRUE(rlc.claim(*bus).ok());
  const auto now = [&] {
    bus->write(0xec26, 1);
    const uint64_t low = bus->read(0xec24);
    return low | uint64_t{bus->read(0xec25)} << 32;
  };
  const uint64_t first = now();
  EXPECT_LE(first, clock.ticks());
  usleep(2000);
  const uint64_t second = now();
  EXPECT_GE(second - first, 100000u) << "2 ms at 100 MHz are 200000";
  EXPECT_LT(second - first, 1000000000u);
}

HubRegisters::Spec spec_of(Hub hub, unsigned node, unsigned nodes) {
  return {.hub = hub,
          .layout = mi210().gfx_hub_layout,
          .base = hub == Hub::kGfx ? 0x2840u : 0x1ab80u,
          .fb_base = 0x8000000000,
          .segment = 1ull << 36,
          .node = node,
          .nodes = nodes};
}

TEST(HubRegisters, InvalidationIsAcknowledgedForTheRequestedVmids) {
  auto bus = expect(RegisterBus::create({}));
  HubRegisters hub(spec_of(Hub::kMm, 0, 1));
  ASSERT_TRUE(hub.claim(*bus).ok());
  EXPECT_EQ(bus->read(0x1abf5 + 17), 0u);
  bus->write(0x1abe3 + 17, 0x7c0000 | 1 << 5);
  EXPECT_EQ(bus->read(0x1abf5 + 17), 1u << 5);
  EXPECT_EQ(bus->read(0x1abf5 + 16), 0u);
  bus->write(0x1abf5 + 17, 0xffff);
  EXPECT_EQ(bus->read(0x1abf5 + 17), 1u << 5) << "read-only";
  EXPECT_EQ(bus->read(0x1abd1 + 17), 1u) << "the semaphore is free";
}

TEST(HubRegisters, OnlyAHiveHasXgmi) {
  HubRegisters alone(spec_of(Hub::kGfx, 0, 1));
  EXPECT_EQ(alone.read(0x2978), 0u);
  HubRegisters third(spec_of(Hub::kGfx, 2, 4));
  EXPECT_EQ(third.read(0x2978), 2u | 3 << 4);
  EXPECT_EQ(third.read(0x2979), 1u << 12);
  EXPECT_EQ(third.fb_base(), 0x8000000000u);
  EXPECT_EQ(third.fb_end(), 0x8000000000u + (4ull << 36) - 1);
}

TEST(HubRegisters, ContextIsReadFromItsRegisters) {
  HubRegisters hub(spec_of(Hub::kGfx, 0, 1));
  EXPECT_FALSE(hub.context(3).enabled);
  hub.write(0x2883, 0x5554cd);
  hub.write(0x28eb + 6, 0x12345001);
  hub.write(0x28eb + 7, 0x7);
  hub.write(0x290b + 6, 0x10);
  hub.write(0x292b + 6, 0xffffffff);
  hub.write(0x292b + 7, 0xf);
  const AddressSpace space = hub.context(3);
  EXPECT_TRUE(space.enabled);
  EXPECT_EQ(space.depth, 2u);
  EXPECT_EQ(space.block_size, 9u);
  EXPECT_EQ(space.base, 0x712345001u);
  EXPECT_EQ(space.start, 0x10000u);
  EXPECT_EQ(space.end, 0xffffffffffffu);
  EXPECT_FALSE(hub.context(16).enabled);
}

}  // namespace
}  // namespace gpu
