// SPDX-License-Identifier: GPL-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint64_t kFence = 0x8000;
constexpr uint64_t kTarget = 0x800000;

class Pm4Test : public ::testing::Test {
 protected:
  Pm4Test() {
    gpu_.start_hiq();
    queue_ = gpu_.make(TestQueue::kPm4, 1, 0);
    gpu_.run({&queue_});
  }
  bool run(const std::vector<uint32_t>& words) {
    gpu_.submit(queue_, words + pm4_write(kFence, {++fence_}));
    return FakeGpu::eventually([&] { return get<uint32_t>(kFence) == fence_; });
  }
  template <typename T>
  T get(uint64_t address) {
    return gpu_.memory.get<T>(queue_.base, address);
  }

  FakeGpu gpu_;
  TestQueue queue_;
  uint32_t fence_ = 0;
};

TEST_F(Pm4Test, WritesData) {
  ASSERT_TRUE(run(pm4_write(kTarget, {1, 2, 3})));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x200000001u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8), 3u);
}

TEST_F(Pm4Test, CopiesDataFromMemoryImmediateAndClock) {
  gpu_.memory.put<uint64_t>(queue_.base, kTarget, 0x1122334455667788);
  ASSERT_TRUE(
      run(pm4_packet(pm4::kCopyData,
                     {1u << 16 | 5 << 8 | 1, low32(kTarget), 0, low32(kTarget + 8), 0}) +
          pm4_packet(pm4::kCopyData, {5 << 8 | 5, 77, 0, low32(kTarget + 16), 0}) +
          pm4_packet(pm4::kCopyData, {1u << 16 | 5 << 8 | 9, 0, 0, low32(kTarget + 24), 0})));
  EXPECT_EQ(get<uint64_t>(kTarget + 8), 0x1122334455667788u);
  EXPECT_EQ(get<uint64_t>(kTarget + 16), 77u);
  EXPECT_NE(get<uint64_t>(kTarget + 24), 0u);
}

TEST_F(Pm4Test, DmaDataCopiesAndFills) {
  for (uint32_t i = 0; i < 2000; ++i) gpu_.memory.put<uint32_t>(queue_.base, kTarget + 4 * i, i);
  ASSERT_TRUE(
      run(pm4_packet(pm4::kDmaData, {0, low32(kTarget), 0, low32(kTarget + 0x10000), 0, 8000}) +
          pm4_packet(pm4::kDmaData, {2u << 29, 0xabcd1234, 0, low32(kTarget + 0x20000), 0, 8000})));
  EXPECT_EQ(get<uint32_t>(kTarget + 0x10000 + 4 * 1999), 1999u);
  EXPECT_EQ(get<uint32_t>(kTarget + 0x10000 + 8000), 0u);
  EXPECT_EQ(get<uint32_t>(kTarget + 0x20000 + 7996), 0xabcd1234u);
  EXPECT_EQ(get<uint32_t>(kTarget + 0x20000 + 8000), 0u);
}

TEST_F(Pm4Test, DmaDataToNowhereOnlyPrefetches) {
  gpu_.memory.put<uint32_t>(queue_.base, kTarget, 7);
  ASSERT_TRUE(run(pm4_packet(pm4::kDmaData, {3u << 29 | 2u << 20, low32(kTarget + 0x1000), 0,
                                             low32(kTarget), 0, 1u << 31 | 64})));
  EXPECT_EQ(get<uint32_t>(kTarget), 7u);
}

TEST_F(Pm4Test, AtomicAddsInMemory) {
  gpu_.memory.put<uint64_t>(queue_.base, kTarget, 40);
  ASSERT_TRUE(run(pm4_packet(pm4::kAtomicMem, {0x2f, low32(kTarget), 0, 2, 0, 0, 0, 0})));
  EXPECT_EQ(get<uint64_t>(kTarget), 42u);
}

TEST_F(Pm4Test, WaitsForMemoryWithEveryFunction) {
  struct Case {
    uint32_t function, not_yet, now;
  };
  for (const Case& one :
       {Case{1, 10, 9}, {2, 11, 10}, {3, 9, 10}, {4, 10, 9}, {5, 9, 10}, {6, 10, 11}}) {
    gpu_.memory.put<uint32_t>(queue_.base, kTarget, one.not_yet);
    gpu_.submit(queue_, pm4_packet(pm4::kWaitRegMem,
                                   {1u << 4 | one.function, low32(kTarget), 0, 10, ~0u, 4}) +
                            pm4_write(kFence, {++fence_}));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(get<uint32_t>(kFence), fence_ - 1) << one.function;
    gpu_.memory.put<uint32_t>(queue_.base, kTarget, one.now);
    EXPECT_TRUE(FakeGpu::eventually([&] { return get<uint32_t>(kFence) == fence_; }));
  }
}

TEST_F(Pm4Test, Waits64BitsWide) {
  gpu_.memory.put<uint64_t>(queue_.base, kTarget, 1);
  gpu_.submit(queue_,
              pm4_packet(pm4::kWaitRegMem64, {1u << 4 | 3, low32(kTarget), 0, 1, 1, ~0u, ~0u, 4}) +
                  pm4_write(kFence, {1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(get<uint32_t>(kFence), 0u);
  gpu_.memory.put<uint64_t>(queue_.base, kTarget, 0x100000001);
  EXPECT_TRUE(FakeGpu::eventually([&] { return get<uint32_t>(kFence) == 1; }));
}

TEST_F(Pm4Test, IndirectBuffersNestChainAndBranch) {
  const auto call = [](uint64_t at, uint32_t size, bool chain = false) {
    return pm4_packet(pm4::kIndirectBuffer,
                      {low32(at), 0, 1u << 23 | (chain ? 1u << 20 : 0) | size});
  };
  const auto ib2 = pm4_write(kTarget, {1});
  const auto chained = pm4_write(kTarget + 4, {2});
  const auto ib1 = call(0x21000, 5) + call(0x22000, 5, true) + pm4_write(kTarget + 8, {3});
  gpu_.memory.put_words(queue_.base, 0x20000, ib1);
  gpu_.memory.put_words(queue_.base, 0x21000, ib2);
  gpu_.memory.put_words(queue_.base, 0x22000, chained);
  ASSERT_TRUE(run(call(0x20000, static_cast<uint32_t>(ib1.size()))));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x200000001u);
  EXPECT_EQ(get<uint32_t>(kTarget + 8), 0u) << "a chained buffer does not come back";
}

TEST_F(Pm4Test, ConditionalExecutionSkips) {
  ASSERT_TRUE(run(pm4_packet(pm4::kCondExec, {low32(kTarget + 64), 0, 0, 5}) +
                  pm4_write(kTarget, {1}) + pm4_write(kTarget + 4, {2})));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x200000000u);
}

TEST_F(Pm4Test, ReleaseMemWritesThenInterrupts) {
  uint32_t seen = 0;
  gpu_.interrupts.watch = [&](const Interrupt&) { seen = get<uint32_t>(kTarget); };
  ASSERT_TRUE(run(pm4_packet(pm4::kReleaseMem,
                             {5 << 8 | 0x14, 2u << 29 | 2 << 24, low32(kTarget), 0, 17, 18, 99})));
  EXPECT_EQ(get<uint64_t>(kTarget), 18ull << 32 | 17);
  const auto interrupts = gpu_.interrupts.all();
  ASSERT_EQ(interrupts.size(), 1u);
  EXPECT_EQ(seen, 17u);
  EXPECT_EQ(interrupts[0].client, 0x14);
  EXPECT_EQ(interrupts[0].source, 181);
  EXPECT_EQ(interrupts[0].pasid, queue_.pasid);
  EXPECT_EQ(gpu_.memory.base_of(interrupts[0].vmid), queue_.base);
  EXPECT_EQ(interrupts[0].data[0], 99u);
}

TEST_F(Pm4Test, UserQueuesWriteTheScratchRegisters) {
  ASSERT_TRUE(run(pm4_packet(pm4::kSetUconfigReg, {0x47, 7})));
  EXPECT_EQ(gpu_.registers.read(0xc047), 7u);
}

TEST_F(Pm4Test, UserQueuesCannotWriteRegistersNorSchedule) {
  gpu_.registers.write(0xc040, 1);
  gpu_.registers.write(0xc048, 1);
  ASSERT_TRUE(run(pm4_packet(pm4::kSetUconfigReg, {0x48, 2}) +
                  pm4_packet(pm4::kSetUconfigReg, {0x3f, 2, 2}) +
                  pm4_packet(pm4::kWriteData, {0, 0xc040, 0, 3})));
  EXPECT_EQ(gpu_.registers.read(0xc048), 1u);
  EXPECT_EQ(gpu_.registers.read(0xc040), 1u);
  gpu_.submit(queue_, pm4_packet(pm4::kUnmapQueues, {2 << 4, 0, 0, 0, 0}));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
}

// A kernel of hand-written words: every work-item stores its group's number.
class Pm4DispatchTest : public Pm4Test {
 protected:
  static constexpr uint64_t kCode = 0x900000;
  static std::vector<uint32_t> set_sh(uint32_t offset, const std::vector<uint32_t>& values) {
    return pm4_packet(pm4::kSetShReg, std::vector<uint32_t>{offset - 0x2c00} + values);
  }
  // s_load is not needed: the target is in user SGPRs 0 and 1, the group in s2.
  std::vector<uint32_t> prepare() {
    gpu_.memory.put_words(queue_.base, kCode,
                          {0x8e038602,              // s_lshl_b32 s3, s2, 6
                           0x68020003,              // v_add_u32 v1, s3, v0
                           0x24020282,              // v_lshlrev_b32 v1, 2, v1
                           0x7e040202,              // v_mov_b32 v2, s2
                           0xdc708000, 0x00000201,  // global_store_dword v1, v2, s[0:1]
                           0xbf810000});            // s_endpgm
    return set_sh(0x2e04, {0, 0, 0}) + set_sh(0x2e07, {64, 1, 1}) +
           set_sh(0x2e0c, {low32(kCode >> 8), 0}) +
           set_sh(0x2e12, {0xf0 << 12 | 1 << 21 | 1 << 23, 2 << 1 | 1 << 7}) + set_sh(0x2e2d, {0}) +
           set_sh(0x2e40, {low32(kTarget), 0});
  }
  void expect_groups(uint32_t first, uint32_t end) {
    for (uint32_t i = first * 64; i < end * 64; ++i) {
      ASSERT_EQ(get<uint32_t>(kTarget + 4 * i), i / 64) << i;
    }
  }
};

TEST_F(Pm4DispatchTest, RunsAKernel) {
  ASSERT_TRUE(run(prepare() + pm4_packet(pm4::kDispatchDirect, {5, 1, 1, 1})));
  expect_groups(0, 5);
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * 5 * 64), 0u);
}

TEST_F(Pm4DispatchTest, TakesRegistersInPairs) {
  constexpr uint64_t kElsewhere = kTarget + 0x1000;
  ASSERT_TRUE(run(prepare() +
                  pm4_packet(pm4::kSetShRegPairsPacked,
                             {2, 0x241u << 16 | 0x240, low32(kElsewhere), high32(kElsewhere)}) +
                  pm4_packet(pm4::kDispatchDirect, {3, 1, 1, 1})));
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * 2 * 64), 0u);
  EXPECT_EQ(get<uint32_t>(kElsewhere + 4 * 2 * 64), 2u);
}

TEST_F(Pm4DispatchTest, StartsAtTheGivenGroupAndCountsThreads) {
  gpu_.memory.put<uint32_t>(queue_.base, kTarget, 77);
  ASSERT_TRUE(run(prepare() + set_sh(0x2e04, {2, 0, 0}) +
                  pm4_packet(pm4::kDispatchDirect, {4 * 64 + 10, 1, 1, 1 << 5 | 1})));
  EXPECT_EQ(get<uint32_t>(kTarget), 77u);
  expect_groups(2, 4);
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * (4 * 64 + 9)), 4u);
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * (4 * 64 + 10)), 0u);
}

TEST_F(Pm4DispatchTest, TheLastGroupIsSmallerIfTheInitiatorSaysSo) {
  ASSERT_TRUE(run(prepare() + set_sh(0x2e07, {10u << 16 | 64, 1, 1}) +
                  pm4_packet(pm4::kDispatchDirect, {3, 1, 1, 1 << 1 | 1})));
  expect_groups(0, 2);
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * (2 * 64 + 9)), 2u);
  EXPECT_EQ(get<uint32_t>(kTarget + 4 * (2 * 64 + 10)), 0u);
}

TEST_F(Pm4DispatchTest, TakesDimensionsFromMemory) {
  gpu_.memory.put_words(queue_.base, 0x9000, {3, 1, 1});
  ASSERT_TRUE(run(prepare() + pm4_packet(pm4::kDispatchIndirect, {0x9000, 0, 1})));
  expect_groups(0, 3);
}

TEST_F(Pm4DispatchTest, KeepsItsRegistersOverAPreemption) {
  ASSERT_TRUE(run(prepare()));
  ASSERT_TRUE(gpu_.preempt());
  gpu_.run({&queue_});
  ASSERT_TRUE(run(pm4_packet(pm4::kDispatchDirect, {2, 1, 1, 1})));
  expect_groups(0, 2);
}

TEST_F(Pm4DispatchTest, AnInstructionThatDoesNotExistStopsTheQueue) {
  const auto registers = prepare();
  gpu_.memory.put<uint32_t>(queue_.base, kCode, 0xffffffff);
  gpu_.submit(queue_,
              registers + pm4_packet(pm4::kDispatchDirect, {1, 1, 1, 1}) + pm4_write(kFence, {1}));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], ::testing::HasSubstr("no instruction 0xffffffff"));
  EXPECT_EQ(gpu_.interrupts.count(ih::kSourceBadOpcode), 1u);
  EXPECT_EQ(get<uint32_t>(kFence), 0u);
}

TEST_F(Pm4Test, ReportsTheReadPointerWithinTheRing) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run(std::vector<uint32_t>(5000, 0x80000000)));
  const auto expected = static_cast<uint32_t>(queue_.wptr_value % (FakeGpu::kRingBytes / 4));
  EXPECT_TRUE(FakeGpu::eventually([&] { return get<uint32_t>(queue_.rptr) == expected; }));
}

class KernelQueueTest : public ::testing::Test {
 protected:
  KernelQueueTest() { gpu_.start_kiq(); }
  FakeGpu gpu_;
};

TEST_F(KernelQueueTest, TheHubsForgetAProcess) {
  constexpr uint32_t kAllHubs = 1 << 4;
  gpu_.kiq(pm4_packet(pm4::kInvalidateTlbs, {0x8001 << 5 | 1}));
  gpu_.kiq(pm4_packet(pm4::kInvalidateTlbs, {0x8002 << 5 | kAllHubs | 1}));
  ASSERT_EQ(gpu_.memory.invalidated(0x8001).size(), 1u);
  EXPECT_EQ(gpu_.memory.invalidated(0x8001)[0].hub, Hub::kGfx);
  ASSERT_EQ(gpu_.memory.invalidated(0x8002).size(), 2u);
  EXPECT_EQ(gpu_.memory.invalidated(0x8002)[1].hub, Hub::kMm);
}

TEST_F(KernelQueueTest, TheRingTestOfTheDriverPasses) {
  gpu_.kiq(pm4_packet(pm4::kSetUconfigReg, {0x40, 0xdeadbeef}));
  EXPECT_EQ(gpu_.registers.read(0xc040), 0xdeadbeefu);
}

TEST_F(KernelQueueTest, WritesOneRegisterAndWaitsForAnother) {
  gpu_.registers.write(0x101, 4);
  gpu_.kiq(pm4_packet(pm4::kWaitRegMem, {1u << 6 | 3, 0x100, 0x101, 0xf80004, 4, 10}) +
           pm4_write(kFence, {1}));
  EXPECT_EQ(gpu_.registers.read(0x100), 0xf80004u);
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kFence), 1u);
}

TEST_F(KernelQueueTest, ReadsARegisterIntoMemory) {
  gpu_.registers.write(0x100, 1234);
  gpu_.kiq(pm4_packet(pm4::kCopyData, {5 << 8, 0x100, 0, kFence, 0}));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kFence), 1234u);
}

TEST_F(KernelQueueTest, MapsAComputeRingWhoseInterruptsNameIt) {
  const uint64_t mqd = 0x300000;
  gpu_.memory.put<uint32_t>(0, mqd + mqd::kPqBase * 4, 0x310000 >> 8);
  gpu_.memory.put<uint32_t>(0, mqd + mqd::kPqControl * 4, 9);
  gpu_.kiq(pm4_packet(pm4::kMapQueues, {1u << 29 | 2 << 16 | 1 << 13, 0x18, low32(mqd), 0, 0, 0}));
  gpu_.memory.put_words(0, 0x310000,
                        pm4_packet(pm4::kReleaseMem, {0, 1u << 29 | 2 << 24, kFence, 0, 5, 0, 0}));
  gpu_.engines->ring(0x18, 8, 8);
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(181) == 1; }));
  EXPECT_EQ(gpu_.interrupts.all()[0].ring, 2 | 1 << 2 | 1 << 4);
  EXPECT_EQ(gpu_.interrupts.all()[0].vmid, 0);
  // Its descriptor is there for the driver to see, until it is unmapped.
  const uint32_t active = mi210().cp.hqd + mqd::kActive - mqd::kHqdFirst;
  gpu_.registers.write(mi210().cp.select, 1 << 8 | 1 << 2 | 2);
  EXPECT_EQ(gpu_.registers.read(active), 1u);
  gpu_.kiq(pm4_packet(pm4::kUnmapQueues, {1u << 29, 0x18, 0, 0, 0}));
  EXPECT_EQ(gpu_.registers.read(active), 0u);
}

TEST_F(KernelQueueTest, ADequeueRequestEndsTheKiq) {
  const uint32_t hqd = mi210().cp.hqd - mqd::kHqdFirst;
  gpu_.registers.write(mi210().cp.select, 2 << 2 | 1);
  EXPECT_EQ(gpu_.registers.read(hqd + mqd::kActive), 1u);
  gpu_.registers.write(hqd + mqd::kDequeueRequest, 1);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.registers.read(hqd + mqd::kActive) == 0; }));
}

// AQL packets of a user queue.
class AqlTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSignals = 0x10000;
  AqlTest() {
    gpu_.start_hiq();
    queue_ = gpu_.make(TestQueue::kAql, 1, 0);
    gpu_.run({&queue_});
  }
  uint64_t signal(unsigned index, uint64_t value) {
    const uint64_t handle = kSignals + index * 64;
    put<uint64_t>(handle + aql::kSignalValue, value);
    return handle;
  }
  uint64_t value(uint64_t handle) { return get<uint64_t>(handle + aql::kSignalValue); }
  template <typename T>
  T get(uint64_t address) {
    return gpu_.memory.get<T>(queue_.base, address);
  }
  template <typename T>
  void put(uint64_t address, T data) {
    gpu_.memory.put<T>(queue_.base, address, data);
  }
  static std::vector<uint32_t> packet(uint32_t type, uint64_t completion,
                                      const std::vector<uint64_t>& dependencies = {}) {
    std::vector<uint32_t> words(16);
    words[0] = type;
    for (size_t i = 0; i < dependencies.size(); ++i) words[2 + 2 * i] = low32(dependencies[i]);
    words[14] = low32(completion);
    return words;
  }
  std::vector<uint32_t> pm4_ib(uint64_t at, const std::vector<uint32_t>& ib, uint64_t completion) {
    gpu_.memory.put_words(queue_.base, at, ib);
    auto words = packet(aql::kVendor | aql::kPm4Ib << 16, completion);
    words[1] = 3u << 30 | 2 << 16 | pm4::kIndirectBuffer << 8;
    words[2] = low32(at);
    words[4] = 1u << 23 | static_cast<uint32_t>(ib.size());
    return words;
  }
  bool becomes(uint64_t handle, uint64_t expected) {
    return FakeGpu::eventually([&] { return value(handle) == expected; });
  }

  FakeGpu gpu_;
  TestQueue queue_;
};

TEST_F(AqlTest, ABarrierCompletesItsSignalAndFreesItsSlot) {
  const uint64_t done = signal(0, 1);
  gpu_.submit(queue_, packet(aql::kBarrierAnd, done));
  ASSERT_TRUE(becomes(done, 0));
  EXPECT_EQ(get<uint8_t>(queue_.ring), aql::kInvalid);
  EXPECT_EQ(gpu_.rptr(queue_), 1u);
  EXPECT_GT(get<uint64_t>(done + aql::kSignalStart), 0u);
  EXPECT_GE(get<uint64_t>(done + aql::kSignalEnd), get<uint64_t>(done + aql::kSignalStart));
  EXPECT_TRUE(gpu_.interrupts.all().empty());
}

TEST_F(AqlTest, AnEventsMailboxIsWrittenBeforeItsInterrupt) {
  const uint64_t done = signal(0, 1);
  put<uint64_t>(done + aql::kSignalMailbox, 0x9000);
  put<uint32_t>(done + aql::kSignalEventId, 33);
  put<uint64_t>(0x9000, ~0ull);
  uint64_t seen_mailbox = 0, seen_value = 1;
  gpu_.interrupts.watch = [&](const Interrupt&) {
    seen_mailbox = get<uint64_t>(0x9000);
    seen_value = value(done);
  };
  gpu_.submit(queue_, packet(aql::kBarrierAnd, done));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(181) == 1; }));
  EXPECT_EQ(seen_mailbox, 33u);
  EXPECT_EQ(seen_value, 0u);
  EXPECT_EQ(gpu_.interrupts.all()[0].data[0], 33u);
}

TEST_F(AqlTest, BarrierAndWaitsForAllBarrierOrForOne) {
  const uint64_t a = signal(0, 1), b = signal(1, 1), all = signal(2, 1), any = signal(3, 1);
  gpu_.submit(queue_, packet(aql::kBarrierOr, any, {a, b}) + packet(aql::kBarrierAnd, all, {a, b}));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(value(any), 1u);
  put<uint64_t>(b + aql::kSignalValue, 0);
  ASSERT_TRUE(becomes(any, 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(value(all), 1u);
  put<uint64_t>(a + aql::kSignalValue, 0);
  EXPECT_TRUE(becomes(all, 0));
}

TEST_F(AqlTest, ChainsAcrossQueuesRunInOrder) {
  TestQueue other = gpu_.make(TestQueue::kAql, 1, 1);
  gpu_.preempt();
  gpu_.run({&queue_, &other});
  std::vector<uint64_t> links;
  for (unsigned i = 0; i < 101; ++i) links.push_back(signal(i, 1));
  for (unsigned i = 1; i < 101; ++i) {
    gpu_.submit(i % 2 ? queue_ : other, packet(aql::kBarrierAnd, links[i], {links[i - 1]}));
  }
  EXPECT_EQ(value(links[100]), 1u);
  put<uint64_t>(links[0] + aql::kSignalValue, 0);
  EXPECT_TRUE(becomes(links[100], 0));
}

TEST_F(AqlTest, VendorPacketsRunPm4ThenComplete) {
  const uint64_t done = signal(0, 2);
  gpu_.submit(queue_, pm4_ib(0x20000, pm4_write(kTarget, {5}), done) +
                          pm4_ib(0x21000, pm4_write(kTarget + 4, {6}), done));
  ASSERT_TRUE(becomes(done, 0));
  EXPECT_EQ(get<uint64_t>(kTarget), 0x600000005u);
}

TEST_F(AqlTest, BarrierValueComparesMasked) {
  const uint64_t condition = signal(0, 0xf3), done = signal(1, 1);
  auto words = packet(aql::kVendor | aql::kBarrierValue << 16, done);
  words[2] = low32(condition);
  words[4] = 4;
  words[6] = 0xf;
  words[8] = 3;  // at least
  gpu_.submit(queue_, words);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(value(done), 1u);
  put<uint64_t>(condition + aql::kSignalValue, 0x15);
  EXPECT_TRUE(becomes(done, 0));
}

TEST_F(AqlTest, APacketThatIsNotPublishedHoldsTheQueue) {
  const uint64_t first = signal(0, 1), second = signal(1, 1);
  gpu_.append(queue_, packet(aql::kInvalid, first));
  gpu_.submit(queue_, packet(aql::kBarrierAnd, second));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(value(second), 1u);
  put<uint32_t>(queue_.ring, aql::kBarrierAnd);
  gpu_.ring(queue_);
  EXPECT_TRUE(becomes(first, 0));
  EXPECT_TRUE(becomes(second, 0));
}

TEST_F(AqlTest, TheRingWraps) {
  const uint64_t done = signal(0, 5000);
  for (int i = 0; i < 10; ++i) {
    std::vector<uint32_t> words;
    for (int j = 0; j < 500; ++j) words = words + packet(aql::kBarrierAnd, done);
    gpu_.submit(queue_, words);
    ASSERT_TRUE(becomes(done, 5000 - 500 * (i + 1)));
  }
  EXPECT_EQ(gpu_.rptr(queue_), 5000u);
}

TEST_F(AqlTest, ADispatchThatIsNotValidIsAnErrorOfTheQueueAndNeverCompletes) {
  // As ROCr lays out amd_queue_t behind its read index.
  const uint64_t error = signal(1, 0), done = signal(0, 1);
  put<uint32_t>(queue_.rptr + aql::kReadIdOffsetField, aql::kReadIdOffset);
  put<uint64_t>(queue_.rptr + aql::kInactiveSignal, error);
  put<uint64_t>(error + aql::kSignalMailbox, 0x9000);
  put<uint32_t>(error + aql::kSignalEventId, 12);
  auto words = packet(aql::kKernelDispatch, done);
  gpu_.memory.put_words(queue_.base, queue_.ring, words);
  gpu_.ring(queue_);
  // The write index shares memory with the layout above: here it is large, and that is enough.
  ASSERT_TRUE(becomes(error, aql::kErrorDimensions));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], ::testing::HasSubstr("without dimensions"));
  EXPECT_EQ(value(done), 1u);
  EXPECT_EQ(get<uint64_t>(0x9000), 12u);
  ASSERT_EQ(gpu_.interrupts.count(ih::kSourceBadOpcode), 1u);
  EXPECT_TRUE(gpu_.preempt());
}

// As EC_QUEUE_PACKET_UNSUPPORTED and EC_QUEUE_PACKET_VENDOR_UNSUPPORTED of kfd_ioctl.h.
struct RefusedPacket {
  const char* name;
  uint32_t header;
  uint32_t exception;
};
class RefusedAqlTest : public AqlTest, public ::testing::WithParamInterface<RefusedPacket> {};

TEST_P(RefusedAqlTest, RaisesItsException) {
  const uint64_t done = signal(0, 1);
  gpu_.submit(queue_, packet(GetParam().header, done));
  ASSERT_TRUE(FakeGpu::eventually([&] { return !gpu_.exceptions(queue_).empty(); }));
  EXPECT_THAT(gpu_.exceptions(queue_), ::testing::ElementsAre(GetParam().exception));
  EXPECT_EQ(value(done), 1u);
  EXPECT_EQ(gpu_.rptr(queue_), 0u) << "the packet stays in the queue";
}

INSTANTIATE_TEST_SUITE_P(Types, RefusedAqlTest,
                         ::testing::Values(RefusedPacket{"Agent", aql::kAgentDispatch, 20},
                                           RefusedPacket{"FirstReserved", 6, 20},
                                           RefusedPacket{"LastReserved", 0xff, 20},
                                           RefusedPacket{"Vendor", aql::kVendor | 9 << 16, 23}),
                         [](const auto& info) { return info.param.name; });

TEST_F(AqlTest, ADispatchOfAnotherQueueLayoutTouchesNoMemory) {
  const uint64_t error = signal(1, 0);
  put<uint64_t>(queue_.rptr + aql::kInactiveSignal, error);
  gpu_.submit(queue_, packet(aql::kKernelDispatch, 0));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_EQ(value(error), 0u);
}

}  // namespace
}  // namespace gpu::test
