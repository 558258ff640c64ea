// SPDX-License-Identifier: GPL-2.0
#include "mem/page_walker.h"

#include <random>

#include "test_support/guest_ram.h"

namespace gpu {
namespace {

using test::expect;
using test::GuestRam;

constexpr uint64_t kVramSize = 16 << 20;
constexpr uint64_t kRamBase = 0x100000000;
constexpr uint64_t kRamSize = 4 << 20;
constexpr uint64_t kRw = pte::kValid | pte::kRead | pte::kWrite;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kBig = 2 << 20;

// Tables at fixed places in VRAM: PDB2 at 0, PDB1 at 0x1000, PDB0 at 0x2000, PTB at 0x3000.
class WalkerTest : public testing::Test {
 protected:
  WalkerTest()
      : ram_(kRamSize),
        vram_(expect(Vram::create({.size = kVramSize, .shared_dir = "", .node = 0, .nodes = 1}))),
        physical_(dma_, *vram_),
        walker_(physical_) {
    EXPECT_TRUE(dma_.map({.iova = kRamBase, .size = kRamSize}, ram_.fd(), 0).ok());
    link(0x0000, 0, 0x1000 | pte::kValid);
    link(0x1000, 0, 0x2000 | pte::kValid);
    link(0x2000, 0, 0x3000 | pte::kValid | pte::kTranslateFurther);
  }

  void link(uint64_t table, uint64_t index, uint64_t entry) {
    memcpy(vram_->own().data() + table + 8 * index, &entry, 8);
  }
  PhysicalRun walk(uint64_t address, uint64_t size = 1, bool for_write = false) {
    return walker_.walk(space_, address, size, for_write);
  }

  const GuestRam ram_;
  DmaTable dma_;
  std::unique_ptr<Vram> vram_;
  PhysicalMemory physical_;
  PageWalker walker_;
  AddressSpace space_ = {.enabled = true,
                         .depth = 2,
                         .block_size = 9,
                         .base = pte::kValid,
                         .start = 0,
                         .end = (1ull << 48) - 1};
};

TEST_F(WalkerTest, FourLevelsLeadToAPage) {
  link(0x3000, 3, 0x5000 | kRw);
  const PhysicalRun run = walk(3 * kPage + 0x10, 100);
  EXPECT_EQ(run.cause, FaultCause::kNone);
  EXPECT_FALSE(run.physical.system);
  EXPECT_EQ(run.physical.address, 0x5010u);
  EXPECT_EQ(run.size, 100u);
}

TEST_F(WalkerTest, SystemBitLeadsToGuestMemory) {
  link(0x3000, 0, (kRamBase + kPage) | kRw | pte::kSystem);
  const PhysicalRun run = walk(8);
  EXPECT_TRUE(run.physical.system);
  EXPECT_EQ(run.physical.address, kRamBase + kPage + 8);
}

TEST_F(WalkerTest, TablesMayLieInGuestMemory) {
  link(0x2000, 0, kRamBase | pte::kValid | pte::kSystem | pte::kTranslateFurther);
  ram_.put<uint64_t>(8, 0x7000 | kRw);
  EXPECT_EQ(walk(kPage).physical.address, 0x7000u);
  space_.base = (kRamBase + kPage) | pte::kValid | pte::kSystem;
  ram_.put<uint64_t>(kPage, 0x1000 | pte::kValid);
  EXPECT_EQ(walk(kPage).physical.address, 0x7000u);
}

TEST_F(WalkerTest, WithoutTranslateFurtherTheEntryIsATwoMegabytePage) {
  link(0x2000, 1, 4 * kBig | kRw);
  const PhysicalRun run = walk(kBig + 0x1234, 3 * kBig);
  EXPECT_EQ(run.physical.address, 4 * kBig + 0x1234);
  EXPECT_EQ(run.size, kBig - 0x1234);
}

TEST_F(WalkerTest, PdeAsPteIsAGigabytePage) {
  link(0x1000, 1, kRw | pte::kPdeAsPte);
  const PhysicalRun run = walk((1ull << 30) + 0x345678, 1ull << 40);
  EXPECT_EQ(run.physical.address, 0x345678u);
  EXPECT_EQ(run.size, (1ull << 30) - 0x345678);
}

TEST_F(WalkerTest, DepthThreeHasItsBigPageByThePdeBit) {
  space_.depth = 3;
  space_.block_size = 0;
  link(0x2000, 0, 0x3000 | pte::kValid);
  link(0x3000, 0, 0x6000 | kRw);
  link(0x2000, 1, 2 * kBig | kRw | pte::kPdeAsPte);
  EXPECT_EQ(walk(0).physical.address, 0x6000u);
  EXPECT_EQ(walk(kBig + 1).physical.address, 2 * kBig + 1);
}

TEST_F(WalkerTest, JoinsContiguousPages) {
  for (uint64_t i = 0; i < 8; ++i) link(0x3000, i, (0x10000 + i * kPage) | kRw);
  link(0x3000, 8, 0x90000 | kRw);
  EXPECT_EQ(walk(0, 1 << 20).size, 8 * kPage);
  EXPECT_EQ(walk(kPage + 1, 1 << 20).size, 7 * kPage - 1);
  EXPECT_EQ(walk(0, 100).size, 100u);
}

TEST_F(WalkerTest, DoesNotJoinDifferentPages) {
  link(0x3000, 0, 0x10000 | kRw);
  link(0x3000, 1, 0x11000 | pte::kValid | pte::kRead);
  EXPECT_EQ(walk(0, 1 << 20).size, kPage);
  link(0x3000, 1, 0x11000 | kRw | pte::kSystem);
  EXPECT_EQ(walk(0, 1 << 20).size, kPage);
  link(0x3000, 1, 0);
  EXPECT_EQ(walk(0, 1 << 20).size, kPage);
}

TEST_F(WalkerTest, JoinsUpToTheEndOfTheTable) {
  for (uint64_t i = 0; i < 512; ++i) link(0x3000, i, (0x400000 + i * kPage) | kRw);
  EXPECT_EQ(walk(0, 1 << 30).size, kBig);
}

TEST_F(WalkerTest, PermissionsAreChecked) {
  link(0x3000, 0, 0x5000 | pte::kValid | pte::kRead);
  link(0x3000, 1, 0x5000 | pte::kValid | pte::kWrite);
  EXPECT_EQ(walk(0, 1, false).cause, FaultCause::kNone);
  EXPECT_EQ(walk(0, 1, true).cause, FaultCause::kNotWritable);
  EXPECT_EQ(walk(kPage, 1, true).cause, FaultCause::kNone);
  EXPECT_EQ(walk(kPage, 1, false).cause, FaultCause::kNotReadable);
}

TEST_F(WalkerTest, InvalidEntriesFaultAtEveryLevel) {
  EXPECT_EQ(walk(0).cause, FaultCause::kNotPresent);
  EXPECT_EQ(walk(kBig).cause, FaultCause::kNotPresent);
  EXPECT_EQ(walk(1ull << 30).cause, FaultCause::kNotPresent);
  EXPECT_EQ(walk(1ull << 39).cause, FaultCause::kNotPresent);
  space_.base = 0;
  EXPECT_EQ(walk(0).cause, FaultCause::kNotPresent);
  space_.enabled = false;
  EXPECT_EQ(walk(0).cause, FaultCause::kNotPresent);
}

TEST_F(WalkerTest, PrtIsUnbackedAtEveryLevel) {
  link(0x3000, 0, pte::kPrt);
  link(0x3000, 1, pte::kPrt);
  link(0x2000, 1, pte::kPrt | 1 << 12);
  link(0x1000, 1, pte::kPrt | pte::kPdeAsPte);
  EXPECT_TRUE(walk(0).unbacked);
  EXPECT_EQ(walk(0, 1 << 20, true).size, 2 * kPage);
  EXPECT_TRUE(walk(kBig, 1, true).unbacked);
  EXPECT_EQ(walk(1ull << 30, 1ull << 40).size, 1ull << 30);
}

TEST_F(WalkerTest, RangeOfTheContextIsObeyed) {
  space_.end = 0x1fff;
  link(0x3000, 0, 0x5000 | kRw);
  link(0x3000, 1, 0x6000 | kRw);
  EXPECT_EQ(walk(0x2000).cause, FaultCause::kOutOfRange);
  EXPECT_EQ(walk(0, 0x10000).size, 2 * kPage) << "contiguous, and cut at the end";
  EXPECT_EQ(walk(1ull << 60).cause, FaultCause::kOutOfRange);
}

TEST_F(WalkerTest, FlatTableStartsAtItsRange) {
  space_ = {.enabled = true,
            .depth = 0,
            .block_size = 0,
            .base = 0x8000 | pte::kValid,
            .start = 0x40000000,
            .end = 0x40003fff};
  link(0x8000, 2, (kRamBase + kPage) | kRw | pte::kSystem);
  const PhysicalRun run = walk(0x40002008, 100);
  EXPECT_EQ(run.cause, FaultCause::kNone);
  EXPECT_EQ(run.physical.address, kRamBase + kPage + 8);
  EXPECT_EQ(walk(0x3fffffff).cause, FaultCause::kOutOfRange);
  EXPECT_EQ(walk(0x40004000).cause, FaultCause::kOutOfRange);
}

TEST_F(WalkerTest, TablesOutsideOfMemoryFault) {
  link(0x2000, 0, kVramSize | pte::kValid | pte::kTranslateFurther);
  EXPECT_EQ(walk(0).cause, FaultCause::kBadTable);
  link(0x2000, 0, (kRamBase + kRamSize) | pte::kValid | pte::kSystem | pte::kTranslateFurther);
  EXPECT_EQ(walk(0).cause, FaultCause::kBadTable);
  // A table whose first entries are inside and whose later ones are not.
  link(0x2000, 0, (kVramSize - 64) | pte::kValid | pte::kTranslateFurther);
  EXPECT_EQ(walk(100 * kPage).cause, FaultCause::kBadTable);
}

TEST_F(WalkerTest, TableThatPointsToItselfEnds) {
  link(0x0000, 0, 0 | pte::kValid | pte::kTranslateFurther);
  const PhysicalRun run = walk(0);
  EXPECT_TRUE(run.cause == FaultCause::kNone || run.cause == FaultCause::kNotReadable);
}

TEST_F(WalkerTest, UnknownSetupsAreRefused) {
  for (const unsigned depth : {1u, 2u, 3u}) {
    for (unsigned block = 0; block < 16; ++block) {
      space_.depth = depth;
      space_.block_size = block;
      const bool known = (depth == 2 && block == 9) || (depth == 3 && block == 0);
      EXPECT_EQ(walk(0).cause == FaultCause::kBadTable, !known) << depth << " " << block;
    }
  }
}

TEST_F(WalkerTest, RandomTablesNeverLeaveMemory) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    for (uint64_t i = 0; i < 4 * 512; ++i) {
      uint64_t entry = random();
      if (random() % 4) entry = (entry & ~pte::kPageMask) | (random() % kVramSize & pte::kPageMask);
      if (random() % 4) entry |= kRw;
      link(0, i, entry);
    }
    space_.depth = static_cast<unsigned>(random() % 4);
    space_.block_size = space_.depth == 2 ? 9 : 0;
    for (int i = 0; i < 50; ++i) {
      const uint64_t address = random() >> (random() % 40);
      const uint64_t size = 1 + random() % (1 << 22);
      const PhysicalRun run = walk(address, size, random() % 2);
      if (run.cause != FaultCause::kNone) continue;
      ASSERT_GE(run.size, 1u);
      ASSERT_LE(run.size, size);
      for (auto& byte : physical_.find(run.physical, std::min<uint64_t>(run.size, 64), false))
        ASSERT_EQ(byte, byte);
    }
  }
}

}  // namespace
}  // namespace gpu
