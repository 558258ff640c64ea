// SPDX-License-Identifier: GPL-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint64_t kFence = 0x8000;
constexpr uint64_t kSource = 0x400000;
constexpr uint64_t kTarget = 0x800000;

// Runs packets on a user queue of a process, and waits for the fence after them.
class SdmaTest : public ::testing::Test {
 protected:
  SdmaTest() {
    gpu_.start_hiq();
    queue_ = gpu_.make(TestQueue::kSdma, 1, 0, 3);
    gpu_.run({&queue_});
  }

  bool run(const std::vector<uint32_t>& words) {
    gpu_.submit(queue_, words + sdma_fence(kFence, ++fence_));
    return FakeGpu::eventually([&] { return get<uint32_t>(kFence) == fence_; });
  }
  template <typename T>
  T get(uint64_t address) {
    return gpu_.memory.get<T>(queue_.base, address);
  }
  void fill_source(uint64_t bytes) {
    auto& space = gpu_.memory.space(queue_.base);
    for (uint64_t i = 0; i < bytes; ++i) space[kSource + i] = std::byte(i * 7 + (i >> 8));
  }
  bool same(uint64_t from, uint64_t to, uint64_t bytes) {
    auto& space = gpu_.memory.space(queue_.base);
    return std::equal(space.begin() + from, space.begin() + from + bytes, space.begin() + to);
  }

  FakeGpu gpu_;
  TestQueue queue_;
  uint32_t fence_ = 0;
};

TEST_F(SdmaTest, CopiesEveryByteAndNotOneMore) {
  for (const uint64_t bytes : {1ull, 3ull, 4095ull, 4097ull, 1048577ull, 3ull << 20}) {
    fill_source(bytes + 1);
    gpu_.memory.put<uint8_t>(queue_.base, kTarget + 5 + bytes, 0xa5);
    ASSERT_TRUE(run(sdma_copy(kSource, kTarget + 5, bytes))) << bytes;
    EXPECT_TRUE(same(kSource, kTarget + 5, bytes)) << bytes;
    EXPECT_EQ(get<uint8_t>(kTarget + 5 + bytes), 0xa5) << bytes;
  }
}

TEST_F(SdmaTest, BroadcastCopiesToBothTargets) {
  fill_source(9000);
  ASSERT_TRUE(run({1u << 27 | sdma::kCopy, 9000 - 1, 0, low32(kSource), 0, low32(kTarget), 0,
                   low32(kTarget + 0x10001), 0}));
  EXPECT_TRUE(same(kSource, kTarget, 9000));
  EXPECT_TRUE(same(kSource, kTarget + 0x10001, 9000));
}

TEST_F(SdmaTest, SubWindowCopiesARectangleBetweenDifferentPitches) {
  fill_source(1 << 16);
  // 4-byte elements; 5 x 3 x 2 from (1, 2, 0), pitch 64, slice 1024, to (3, 1, 0), pitch 100.
  ASSERT_TRUE(run({2u << 29 | 4 << 8 | sdma::kCopy, low32(kSource), 0, 2 << 16 | 1, 63 << 13, 1023,
                   low32(kTarget), 0, 1 << 16 | 3, 99 << 13, 1999, 2 << 16 | 4, 1}));
  for (uint64_t z = 0; z < 2; ++z) {
    for (uint64_t y = 0; y < 3; ++y) {
      const uint64_t from = kSource + 4 * (z * 1024 + (2 + y) * 64 + 1);
      const uint64_t to = kTarget + 4 * (z * 2000 + (1 + y) * 100 + 3);
      EXPECT_TRUE(same(from, to, 20)) << z << " " << y;
      EXPECT_EQ(get<uint32_t>(to + 20), 0u);
      EXPECT_EQ(get<uint32_t>(to - 4), 0u);
    }
  }
}

TEST_F(SdmaTest, FillsWithEveryElementSize) {
  ASSERT_TRUE(run(sdma_fill(kTarget, 0x11223344, 8192 + 8, 2) +
                  sdma_fill(kTarget + 0x10000, 0x5566, 4098, 1) +
                  sdma_fill(kTarget + 0x20000, 0x77, 4097, 0)));
  EXPECT_EQ(get<uint32_t>(kTarget), 0x11223344u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8192 + 4), 0x11223344u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8192 + 8), 0u);
  EXPECT_EQ(get<uint32_t>(kTarget + 0x10000 + 4094), 0x55665566u);
  EXPECT_EQ(get<uint16_t>(kTarget + 0x10000 + 4098), 0u);
  EXPECT_EQ(get<uint16_t>(kTarget + 0x20000 + 4096), 0x0077u);
}

TEST_F(SdmaTest, FillKeepsThePatternAcrossUnalignedPages) {
  ASSERT_TRUE(run(sdma_fill(kTarget + 4094, 0x11223344, 16, 2)));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(get<uint32_t>(kTarget + 4094 + 4 * i), 0x11223344u);
}

TEST_F(SdmaTest, WritesAnyNumberOfDoublewords) {
  std::vector<uint32_t> data(1500);
  std::iota(data.begin(), data.end(), 1u);
  ASSERT_TRUE(run(sdma_write(kTarget + 4000, data)));
  EXPECT_EQ(get<uint32_t>(kTarget + 4000), 1u);
  EXPECT_EQ(get<uint32_t>(kTarget + 4000 + 1499 * 4), 1500u);
}

TEST_F(SdmaTest, GeneratesPageTableEntries) {
  const uint32_t count = 1000;
  ASSERT_TRUE(
      run({sdma::kPtePde, low32(kTarget), 0, 0x73, 0x80000000, 0x1000, 0x5, 0x2000, 0, count - 1}));
  for (uint64_t i : {0u, 1u, 511u, 512u, 999u}) {
    EXPECT_EQ(get<uint64_t>(kTarget + i * 8), (0x500001000ull + i * 0x2000) | 0x8000000000000073)
        << i;
  }
  EXPECT_EQ(get<uint64_t>(kTarget + count * 8), 0u);
}

TEST_F(SdmaTest, RunsIndirectBuffers) {
  gpu_.memory.put_words(queue_.base, 0x20000,
                        sdma_write(kTarget, {1}) + sdma_write(kTarget + 8, {3}));
  ASSERT_TRUE(run({sdma::kIndirect, 0x20000, 0, 10, 0, 0}));
  EXPECT_EQ(get<uint32_t>(kTarget), 1u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8), 3u);
}

// The engine has the registers of one buffer.
TEST_F(SdmaTest, StopsAtANestedIndirectBuffer) {
  gpu_.memory.put_words(queue_.base, 0x20000,
                        std::vector<uint32_t>{sdma::kIndirect, 0x21000, 0, 5, 0, 0});
  gpu_.memory.put_words(queue_.base, 0x21000, sdma_write(kTarget, {2}));
  gpu_.submit(queue_, {sdma::kIndirect, 0x20000, 0, 6, 0, 0});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], ::testing::HasSubstr("does not nest"));
  EXPECT_EQ(get<uint32_t>(kTarget), 0u);
}

TEST_F(SdmaTest, AtomicsAddAndCompareSwap) {
  gpu_.memory.put<uint64_t>(queue_.base, kTarget, 0xffffffff);
  gpu_.memory.put<uint32_t>(queue_.base, kTarget + 8, 5);
  ASSERT_TRUE(run({0x2fu << 25 | sdma::kAtomic, low32(kTarget),     0, 2,  0, 0, 0, 0,
                   0x08u << 25 | sdma::kAtomic, low32(kTarget + 8), 0, 9,  0, 5, 0, 0,
                   0x08u << 25 | sdma::kAtomic, low32(kTarget + 8), 0, 11, 0, 5, 0, 0}));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x100000001u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8), 9u);
}

TEST_F(SdmaTest, LoopedCompareSwapTakesALock) {
  gpu_.memory.put<uint32_t>(queue_.base, kTarget, 1);
  gpu_.submit(queue_, std::vector<uint32_t>{0x08u << 25 | 1 << 16 | sdma::kAtomic, low32(kTarget),
                                            0, 7, 0, 0, 0, 10} +
                          sdma_fence(kFence, 99));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(get<uint32_t>(kFence), 0u);
  gpu_.memory.put<uint32_t>(queue_.base, kTarget, 0);
  EXPECT_TRUE(FakeGpu::eventually([&] { return get<uint32_t>(kFence) == 99; }));
  EXPECT_EQ(get<uint32_t>(kTarget), 7u);
}

TEST_F(SdmaTest, ConditionSkipsWhenTheValueDiffers) {
  gpu_.memory.put<uint32_t>(queue_.base, kTarget + 64, 1);
  ASSERT_TRUE(run(std::vector<uint32_t>{sdma::kCondExe, low32(kTarget + 64), 0, 2, 5} +
                  sdma_write(kTarget, {1}) +
                  std::vector<uint32_t>{sdma::kCondExe, low32(kTarget + 64), 0, 1, 5} +
                  sdma_write(kTarget + 4, {2})));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x200000000u);
}

TEST_F(SdmaTest, TimestampsAdvance) {
  ASSERT_TRUE(run({2 << 8 | sdma::kTimestamp, low32(kTarget), 0, 1 << 8 | sdma::kTimestamp,
                   low32(kTarget + 8), 0}));
  EXPECT_GT(get<uint64_t>(kTarget), 0u);
  EXPECT_GE(get<uint64_t>(kTarget + 8), get<uint64_t>(kTarget));
}

TEST_F(SdmaTest, NopsSkipTheirData) {
  ASSERT_TRUE(run({3 << 16 | sdma::kNop, ~0u, ~0u, ~0u, sdma::kNop}));
}

TEST_F(SdmaTest, TrapsIdentifyTheRingAndFollowTheFence) {
  uint32_t seen = 0;
  gpu_.interrupts.watch = [&](const Interrupt&) { seen = get<uint32_t>(kTarget); };
  ASSERT_TRUE(run(sdma_fence(kTarget, 42) + std::vector<uint32_t>{sdma::kTrap, 0x1234567}));
  const auto interrupts = gpu_.interrupts.all();
  ASSERT_EQ(interrupts.size(), 1u);
  EXPECT_EQ(interrupts[0].client, 0x04);  // SDMA3
  EXPECT_EQ(interrupts[0].source, 224);
  EXPECT_EQ(interrupts[0].ring, 2);
  EXPECT_EQ(gpu_.memory.base_of(interrupts[0].vmid), queue_.base);
  EXPECT_EQ(interrupts[0].pasid, queue_.pasid);
  EXPECT_EQ(interrupts[0].data[0], 0x1234567u);
  EXPECT_EQ(seen, 42u);
}

TEST_F(SdmaTest, CopyingPoisonRaisesAnInterruptOnce) {
  std::vector<uint32_t> poison(16);
  std::iota(poison.begin(), poison.end(), 0xbad0ecc0);
  ASSERT_TRUE(run(sdma_write(kSource, poison)));
  ASSERT_TRUE(run(sdma_copy(kSource, kTarget, 63)));
  ASSERT_TRUE(run(sdma_copy(kSource + 4, kTarget, 64)));
  EXPECT_TRUE(gpu_.interrupts.all().empty());
  ASSERT_TRUE(run(sdma_copy(kSource, kTarget, 64)));
  const auto interrupts = gpu_.interrupts.all();
  ASSERT_EQ(interrupts.size(), 1u);
  EXPECT_EQ(interrupts[0].client, 0x04);  // SDMA3
  EXPECT_EQ(interrupts[0].source, 220);
  EXPECT_EQ(interrupts[0].pasid, queue_.pasid);
  EXPECT_TRUE(same(kSource, kTarget, 64));
}

TEST_F(SdmaTest, UserQueuesCannotWriteRegisters) {
  gpu_.registers.write(0x100, 1);
  ASSERT_TRUE(run({0xfu << 28 | sdma::kSrbmWrite, 0x100, 2}));
  EXPECT_EQ(gpu_.registers.read(0x100), 1u);
}

TEST_F(SdmaTest, ReportsTheReadPointerInBytesAndNeverWrapsIt) {
  const uint64_t rounds = 3 * FakeGpu::kRingBytes / (4096 * 4);
  for (uint64_t i = 0; i < rounds; ++i) ASSERT_TRUE(run(std::vector<uint32_t>(4096, 0)));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.rptr(queue_) == queue_.wptr_value; }));
  EXPECT_GT(queue_.wptr_value, 2 * FakeGpu::kRingBytes);
}

TEST_F(SdmaTest, AnIncompletePacketWaitsForTheRest) {
  auto copy = sdma_copy(kSource, kTarget, 16);
  fill_source(16);
  gpu_.submit(queue_, {copy.begin(), copy.begin() + 3});
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(run({copy.begin() + 3, copy.end()}));
  EXPECT_TRUE(same(kSource, kTarget, 16));
}

TEST_F(SdmaTest, AFaultingCopyIsDroppedAndTheQueueContinues) {
  gpu_.memory.punch_hole(queue_.base, kTarget / 4096 + 1);
  fill_source(3 * 4096);
  ASSERT_TRUE(run(sdma_copy(kSource, kTarget, 3 * 4096)));
  EXPECT_EQ(gpu_.memory.faults(), 1u);
  EXPECT_TRUE(same(kSource, kTarget, 4096));
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(SdmaTest, ACopyWaitsForAPageOfAProcessWithXnack) {
  const uint64_t page = kTarget / 4096 + 1;
  gpu_.memory.unmap(queue_.base, page);
  fill_source(3 * 4096);
  gpu_.submit(queue_, sdma_copy(kSource, kTarget, 3 * 4096));
  gpu_.submit(queue_, sdma_fence(kFence, 1));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.retries() > 3; }));
  EXPECT_EQ(get<uint32_t>(kFence), 0u);
  // The queue can be preempted meanwhile, and continues with the page.
  ASSERT_TRUE(gpu_.preempt());
  gpu_.run({&queue_});
  gpu_.memory.map(queue_.base, page);
  ASSERT_TRUE(FakeGpu::eventually([&] { return get<uint32_t>(kFence) == 1; }));
  EXPECT_TRUE(same(kSource, kTarget, 3 * 4096));
  EXPECT_EQ(gpu_.memory.faults(), 0u);
}

TEST_F(SdmaTest, AnUnknownPacketStopsTheQueueWithOneMessage) {
  gpu_.submit(queue_, {0x33, 0, 0, 0});
  ASSERT_TRUE(FakeGpu::eventually([&] { return !gpu_.reports().empty(); }));
  gpu_.submit(queue_, sdma_fence(kFence, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(get<uint32_t>(kFence), 0u);
  EXPECT_EQ(gpu_.reports().size(), 1u);
  EXPECT_THAT(gpu_.reports()[0],
              ::testing::AllOf(::testing::HasSubstr("SDMA3"), ::testing::HasSubstr("0x00000033"),
                               ::testing::HasSubstr("opcode 0x33")));
  EXPECT_TRUE(gpu_.preempt());
}

TEST_F(SdmaTest, AWritePointerBeyondTheRingStopsTheQueue) {
  gpu_.engines->ring(queue_.doorbell, FakeGpu::kRingBytes * 2, 8);
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_TRUE(gpu_.preempt());
}

// The kernel's ring: registers, VMIDs of indirect buffers, privileges.
class SdmaRingTest : public ::testing::Test {
 protected:
  bool fence(unsigned engine, uint32_t value) {
    gpu_.sdma_ring(engine, sdma_fence(kFence, value));
    return FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(0, kFence) == value; });
  }
  FakeGpu gpu_;
};

TEST_F(SdmaRingTest, EveryEngineRunsItsRing) {
  for (unsigned engine = 0; engine < mi210().sdma.size(); ++engine) {
    gpu_.start_sdma_ring(engine);
    gpu_.sdma_ring(engine, {sdma::kTrap, engine});
    EXPECT_TRUE(fence(engine, engine + 1));
  }
  std::vector<unsigned> clients;
  for (const Interrupt& one : gpu_.interrupts.all()) {
    clients.push_back(one.client);
    EXPECT_EQ(one.ring, 0);
    EXPECT_EQ(one.vmid, 0);
  }
  EXPECT_THAT(clients, ::testing::ElementsAre(8, 9, 1, 4, 5));
}

TEST_F(SdmaRingTest, ShowsItsPointersInRegistersAndMemory) {
  gpu_.start_sdma_ring(1);
  ASSERT_TRUE(fence(1, 1));
  const uint32_t rptr = mi210().sdma[1] + reg::kSdmaRbRptr;
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.registers.read(rptr) == 16; }));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.get<uint64_t>(0, 0x180008) == 16; }));
}

TEST_F(SdmaRingTest, ADisabledRingDoesNothingAndRestartsFromZero) {
  gpu_.start_sdma_ring(0);
  ASSERT_TRUE(fence(0, 1));
  const uint32_t base = mi210().sdma[0];
  // Idle: the engine writes its read pointer after the fence.
  ASSERT_TRUE(
      FakeGpu::eventually([&] { return gpu_.registers.read(base + reg::kSdmaRbRptr) == 16; }));
  gpu_.registers.write(base + reg::kSdmaRbCntl, 1u << 12 | 14 << 1);
  gpu_.registers.write(base + reg::kSdmaRbRptr, 0);
  gpu_.registers.write(base + reg::kSdmaRbWptr, 0);
  gpu_.memory.put<uint32_t>(0, kFence, 0);
  gpu_.engines->ring(0x800, 16, 8);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kFence), 0u);
  // The ring still has the fence at its start, and the doorbell has set the write pointer.
  gpu_.registers.write(base + reg::kSdmaRbCntl, 1u << 12 | 14 << 1 | 1);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(0, kFence) == 1; }));
}

TEST_F(SdmaRingTest, IndirectBuffersRunInTheirVmid) {
  gpu_.memory.bind_vmid({Hub::kMm, 5}, 0x77, 0x50001, false);
  gpu_.memory.put_words(0x50001, 0x20000, sdma_write(kTarget, {11}));
  gpu_.start_sdma_ring(2);
  gpu_.sdma_ring(2, {5 << 16 | sdma::kIndirect, 0x20000, 0, 5, 0, 0});
  ASSERT_TRUE(fence(2, 1));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0x50001, kTarget), 11u);
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kTarget), 0u);
}

TEST_F(SdmaRingTest, WritesAndPollsRegisters) {
  gpu_.start_sdma_ring(4);
  gpu_.sdma_ring(4, {0xfu << 28 | sdma::kSrbmWrite, 0x100, 5});
  ASSERT_TRUE(fence(4, 1));
  EXPECT_EQ(gpu_.registers.read(0x100), 5u);
  gpu_.sdma_ring(4, {3u << 28 | sdma::kPollRegMem, 0x101 << 2, 0, 6, 0xf, 10});
  gpu_.sdma_ring(4, sdma_fence(kFence, 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kFence), 1u);
  gpu_.registers.write(0x101, 0xf6);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(0, kFence) == 2; }));
}

// As the driver of SDMA 6 does it: afterwards the ring continues behind what hung.
TEST(SdmaRing, AResetEndsAJobThatHangs) {
  FakeGpu gpu(navi31());
  const uint32_t base = navi31().sdma[0];
  const uint32_t reset = base + *navi31().sdma_reset;
  const auto write_wptr = [&](uint32_t at) {
    gpu.registers.write(base + at, static_cast<uint32_t>(gpu.sdma_ring_wptr(0)));
  };
  gpu.start_sdma_ring(0);
  gpu.sdma_ring(0, sdma_poll(kTarget, 1));
  gpu.registers.write(reset, 1);
  EXPECT_EQ(gpu.registers.read(reset), 0u);
  EXPECT_EQ(gpu.registers.read(base + reg::kSdmaRbCntl) & 1, 0u);
  write_wptr(reg::kSdmaRbRptr);
  write_wptr(reg::kSdmaRbWptr);
  gpu.registers.write(base + reg::kSdmaRbCntl, 1u << 12 | 14 << 1 | 1);
  gpu.sdma_ring(0, sdma_fence(kFence, 1));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu.memory.get<uint32_t>(0, kFence) == 1; }));
  EXPECT_THAT(gpu.reports(), testing::IsEmpty());
}

TEST_F(SdmaRingTest, HdpFlushesAreRequestedAndCompleteAtOnce) {
  gpu_.start_sdma_ring(0);
  gpu_.sdma_ring(0, {3u << 28 | 1 << 26 | sdma::kPollRegMem, 0xe27 << 2, 0xe26 << 2, 4, 4, 10});
  EXPECT_TRUE(fence(0, 1));
  EXPECT_EQ(gpu_.registers.read(0xe26), 4u);
}

}  // namespace
}  // namespace gpu::test
