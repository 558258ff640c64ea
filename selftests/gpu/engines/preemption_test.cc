// SPDX-License-Identifier: GPL-2.0
// Preemption at every place, and the state that the MQD must hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint64_t kFence = 0x8000;
constexpr uint64_t kTarget = 0x800000;

class PreemptionTest : public ::testing::Test {
 protected:
  PreemptionTest() { gpu_.start_hiq(); }
  uint32_t fence(const TestQueue& queue, uint64_t at = kFence) {
    return gpu_.memory.get<uint32_t>(queue.base, at);
  }
  bool fenced(const TestQueue& queue, uint32_t value, uint64_t at = kFence) {
    return FakeGpu::eventually([&] { return fence(queue, at) == value; });
  }
  FakeGpu gpu_;
};

// Every copy reads what the previous one wrote one page below, so a page that any of them copies
// twice or not at all is detected at the end.
std::vector<uint32_t> sliding_copies(unsigned count) {
  std::vector<uint32_t> words;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t from = 0x400000 + i % 2 * 0x400000;
    const uint64_t to = 0x400000 + (i + 1) % 2 * 0x400000;
    words = words + sdma_copy(from, to + 8, (4 << 20) - 8);
  }
  return words;
}

TEST_F(PreemptionTest, CopiesContinueAtTheByteWhereTheyStopped) {
  constexpr unsigned kCopies = 40;
  const auto fill = [&](uint64_t base) {
    auto& space = gpu_.memory.space(base);
    for (uint64_t at = 0x400000; at < 0xc00000; at += 8) {
      const uint64_t value = at * 0x9e3779b97f4a7c15;
      std::memcpy(space.data() + at, &value, 8);
    }
  };
  TestQueue undisturbed = gpu_.make(TestQueue::kSdma, 2, 1, 1);
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0, 1);
  fill(undisturbed.base);
  fill(queue.base);
  gpu_.append(undisturbed, sliding_copies(kCopies) + sdma_fence(kFence, 1));
  gpu_.append(queue, sliding_copies(kCopies) + sdma_fence(kFence, 1));
  gpu_.run({&undisturbed});
  ASSERT_TRUE(fenced(undisturbed, 1));
  ASSERT_TRUE(gpu_.preempt());
  unsigned in_the_middle = 0;
  for (int i = 0; i < 1000 && !fence(queue); ++i) {
    gpu_.run({&queue});
    ASSERT_TRUE(gpu_.preempt());
    in_the_middle +=
        gpu_.memory.get<uint32_t>(0, queue.mqd + kSdmaMqd9.midcmd_cntl * 4) & sdma_mqd::kDataValid;
  }
  ASSERT_EQ(fence(queue), 1u);
  EXPECT_GT(in_the_middle, 3u) << "preemption never came within a copy";
  EXPECT_TRUE(gpu_.memory.space(queue.base) == gpu_.memory.space(undisturbed.base) ||
              std::equal(gpu_.memory.space(queue.base).begin() + 0x400000,
                         gpu_.memory.space(queue.base).begin() + 0xc00000,
                         gpu_.memory.space(undisturbed.base).begin() + 0x400000));
}

TEST_F(PreemptionTest, AQueueContinuesOnAnotherGpu) {
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0, 3);
  // A poll inside of an indirect buffer, between two halves of the work.
  const auto ib =
      sdma_write(kTarget, {1}) + sdma_poll(kTarget + 64, 7) + sdma_write(kTarget + 4, {2});
  gpu_.memory.put_words(queue.base, 0x20000, ib);
  gpu_.append(queue, std::vector<uint32_t>{sdma::kIndirect, 0x20000, 0,
                                           static_cast<uint32_t>(ib.size()), 0, 0} +
                         sdma_fence(kFence, 1));
  gpu_.run({&queue});
  ASSERT_TRUE(fenced(queue, 1, kTarget));
  ASSERT_TRUE(gpu_.preempt());

  FakeGpu other;
  other.start_hiq();
  TestQueue restored = queue;
  restored.engine = 0;
  restored.doorbell = 0x4008;
  restored.mqd = 0x500000;
  other.memory.space(queue.base) = gpu_.memory.space(queue.base);
  other.memory.put<uint32_t>(queue.base, kTarget, 0);  // must not be written a second time
  std::copy_n(gpu_.memory.space(0).begin() + queue.mqd, sdma_mqd::kDwords * 4,
              other.memory.space(0).begin() + restored.mqd);
  other.run({&restored});
  other.memory.put<uint32_t>(queue.base, kTarget + 64, 7);
  ASSERT_TRUE(
      FakeGpu::eventually([&] { return other.memory.get<uint32_t>(queue.base, kFence) == 1; }));
  EXPECT_EQ(other.memory.get<uint64_t>(queue.base, kTarget), 0x200000000u);
}

// A queue that waits inside of an indirect buffer, in turns with preemptions.
class PlaceTest : public PreemptionTest {
 protected:
  static constexpr uint64_t kIb = 0x20000;

  // Writes 1, waits for 7 at kTarget + 64, and writes 2. Behind the buffer is the fence.
  TestQueue wait_inside(TestQueue::Kind kind) {
    TestQueue queue = gpu_.make(kind, 1, 0);
    const bool sdma = kind == TestQueue::kSdma;
    const auto wait =
        sdma ? sdma_poll(kTarget + 64, 7)
             : pm4_packet(pm4::kWaitRegMem, {1u << 4 | 3, low32(kTarget + 64), 0, 7, ~0u, 4});
    const auto put = [&](uint64_t at, uint32_t value) {
      return sdma ? sdma_write(at, {value}) : pm4_write(at, {value});
    };
    const auto ib = put(kTarget, 1) + wait + put(kTarget + 4, 2);
    dwords_ = static_cast<uint32_t>(ib.size());
    before_ = static_cast<uint32_t>(put(kTarget, 1).size());
    gpu_.memory.put_words(queue.base, kIb, ib);
    const auto call = sdma ? std::vector<uint32_t>{sdma::kIndirect, low32(kIb), 0, dwords_, 0, 0}
                           : pm4_packet(pm4::kIndirectBuffer, {low32(kIb), 0, dwords_});
    gpu_.append(queue, call + put(kFence, 1));
    gpu_.run({&queue});
    EXPECT_TRUE(fenced(queue, 1, kTarget));
    EXPECT_TRUE(gpu_.preempt());
    return queue;
  }
  uint32_t word(const TestQueue& queue, unsigned at) {
    return gpu_.memory.get<uint32_t>(0, queue.mqd + at * uint64_t{4});
  }
  void put_word(const TestQueue& queue, unsigned at, uint32_t value) {
    gpu_.memory.put<uint32_t>(0, queue.mqd + at * uint64_t{4}, value);
  }
  bool finishes(TestQueue& queue) {
    gpu_.run({&queue});
    gpu_.memory.put<uint32_t>(queue.base, kTarget + 64, 7);
    const bool done = fenced(queue, 1);
    EXPECT_TRUE(gpu_.preempt());
    return done;
  }

  uint32_t dwords_ = 0, before_ = 0;
};

TEST_F(PlaceTest, OfAPm4QueueIsInTheWordsOfTheHardware) {
  TestQueue queue = wait_inside(TestQueue::kPm4);
  put_word(queue, mqd::kIbControl, word(queue, mqd::kIbControl) | 3 << 20);  // the driver's bits
  EXPECT_EQ(word(queue, mqd::kIbBase), kIb);
  EXPECT_EQ(word(queue, mqd::kIbRptr), before_);
  EXPECT_EQ(word(queue, mqd::kIbControl), ib_control::kProcessing | 3 << 20 | dwords_);
  ASSERT_TRUE(finishes(queue));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kTarget + 4), 2u);
  EXPECT_EQ(word(queue, mqd::kIbControl), 3u << 20);
  EXPECT_TRUE(gpu_.reports().empty());
}

// As the firmware does, whatever the model's own words say.
TEST_F(PlaceTest, WithoutItsControlWordTheRestOfABufferIsSkipped) {
  TestQueue queue = wait_inside(TestQueue::kPm4);
  put_word(queue, mqd::kIbControl, 0);
  ASSERT_TRUE(finishes(queue));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kTarget + 4), 0u);
}

TEST_F(PlaceTest, OfAnSdmaQueueIsInTheWordsOfTheHardware) {
  TestQueue queue = wait_inside(TestQueue::kSdma);
  const unsigned ib = kSdmaMqd9.ib_cntl;
  EXPECT_EQ(word(queue, ib) & sdma_mqd::kIbEnable, sdma_mqd::kIbEnable);
  EXPECT_EQ(word(queue, ib + sdma_mqd::kIbBase), kIb);
  EXPECT_EQ(word(queue, ib + sdma_mqd::kIbRptr), before_ * 4);
  EXPECT_EQ(word(queue, ib + sdma_mqd::kIbSize), dwords_);
  ASSERT_TRUE(finishes(queue));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kTarget + 4), 2u);
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(PlaceTest, TheLastWordOfAnSdmaPacketsStateCounts) {
  TestQueue queue = wait_inside(TestQueue::kSdma);
  put_word(queue, kSdmaMqd9.midcmd_cntl, sdma_mqd::kDataValid);
  put_word(queue, kSdmaMqd9.midcmd_cntl - 1, 0);
  ASSERT_TRUE(finishes(queue));
  EXPECT_THAT(gpu_.reports(), ::testing::ElementsAre(::testing::HasSubstr("MIDCMD_DATA")));
}

// Blobs of released formats have a place and no such bits.
TEST_F(PlaceTest, AnOlderMqdGetsNoBits) {
  constexpr unsigned kReserved = 400;
  TestQueue queue = wait_inside(TestQueue::kPm4);
  put_word(queue, mi210().compute_mqd.reserved + mqd::kNonce, 0);
  put_word(queue, kReserved, 0);
  gpu_.run({&queue});
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(word(queue, kReserved), 0u);
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(PlaceTest, ABitThatPreemptionKeepsMayNotBeDropped) {
  constexpr unsigned kReserved = 400, kIqRptr = 151, kSaveStart = 98, kSdmaReserved = 110;
  TestQueue queue = wait_inside(TestQueue::kPm4);
  EXPECT_NE(word(queue, kReserved), 0u);
  put_word(queue, kIqRptr, 0);  // one that may be dropped
  gpu_.run({&queue});
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_TRUE(gpu_.reports().empty());
  for (const unsigned lost : {kReserved, kSaveStart}) {
    const size_t before = gpu_.reports().size();
    put_word(queue, lost, word(queue, lost) & 0xffff0000);
    gpu_.run({&queue});
    ASSERT_TRUE(gpu_.preempt());
    ASSERT_EQ(gpu_.reports().size(), before + 1);
    EXPECT_THAT(gpu_.reports().back(),
                ::testing::HasSubstr("word " + std::to_string(lost) + " are lost"));
  }
  TestQueue sdma = gpu_.make(TestQueue::kSdma, 1, 1);
  gpu_.run({&sdma});
  ASSERT_TRUE(gpu_.preempt());
  put_word(sdma, kSdmaReserved, 0);
  gpu_.run({&sdma});
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_THAT(gpu_.reports().back(), ::testing::HasSubstr("word 110 are lost"));
}

TEST_F(PreemptionTest, WaitingQueuesAreUnmappedAndMappedAgain) {
  TestQueue sdma = gpu_.make(TestQueue::kSdma, 1, 0);
  TestQueue pm4 = gpu_.make(TestQueue::kPm4, 1, 1);
  TestQueue aql = gpu_.make(TestQueue::kAql, 1, 2);
  const uint64_t done = 0x10000, gate = 0x10040;
  gpu_.memory.put<uint64_t>(aql.base, done + aql::kSignalValue, 1);
  gpu_.memory.put<uint64_t>(aql.base, gate + aql::kSignalValue, 1);
  std::vector<uint32_t> barrier(16);
  barrier[0] = aql::kBarrierAnd;
  barrier[2] = low32(gate);
  barrier[14] = low32(done);
  gpu_.append(sdma, sdma_poll(kTarget, 1) + sdma_fence(kFence, 1));
  gpu_.append(pm4, pm4_packet(pm4::kWaitRegMem, {1u << 4 | 3, low32(kTarget), 0, 1, ~0u, 4}) +
                       pm4_write(kFence + 8, {1}));
  gpu_.append(aql, barrier);
  for (int i = 0; i < 5; ++i) {
    gpu_.run({&sdma, &pm4, &aql});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(gpu_.preempt());
  }
  gpu_.memory.put<uint32_t>(sdma.base, kTarget, 1);
  gpu_.memory.put<uint64_t>(aql.base, gate + aql::kSignalValue, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(fence(sdma), 0u) << "an unmapped queue has run";
  EXPECT_EQ(fence(pm4, kFence + 8), 0u);
  gpu_.run({&sdma, &pm4, &aql});
  EXPECT_TRUE(fenced(sdma, 1));
  EXPECT_TRUE(fenced(pm4, 1, kFence + 8));
  EXPECT_TRUE(FakeGpu::eventually(
      [&] { return gpu_.memory.get<uint64_t>(aql.base, done + aql::kSignalValue) == 0; }));
}

TEST_F(PreemptionTest, AVendorBufferIsNotStartedTwice) {
  TestQueue aql = gpu_.make(TestQueue::kAql, 1, 0);
  const uint64_t done = 0x10000;
  gpu_.memory.put<uint64_t>(aql.base, done + aql::kSignalValue, 1);
  const auto ib = pm4_packet(pm4::kAtomicMem, {0x2f, low32(kTarget), 0, 1, 0, 0, 0, 0}) +
                  pm4_packet(pm4::kWaitRegMem, {1u << 4 | 3, low32(kTarget + 8), 0, 1, ~0u, 4}) +
                  pm4_packet(pm4::kAtomicMem, {0x2f, low32(kTarget), 0, 1, 0, 0, 0, 0});
  gpu_.memory.put_words(aql.base, 0x20000, ib);
  std::vector<uint32_t> words(16);
  words[0] = aql::kVendor | aql::kPm4Ib << 16;
  words[1] = 3u << 30 | 2 << 16 | pm4::kIndirectBuffer << 8;
  words[2] = 0x20000;
  words[4] = 1u << 23 | static_cast<uint32_t>(ib.size());
  words[14] = low32(done);
  gpu_.append(aql, words);
  for (int i = 0; i < 3; ++i) {
    gpu_.run({&aql});
    ASSERT_TRUE(
        FakeGpu::eventually([&] { return gpu_.memory.get<uint64_t>(aql.base, kTarget) == 1; }));
    ASSERT_TRUE(gpu_.preempt());
  }
  gpu_.memory.put<uint32_t>(aql.base, kTarget + 8, 1);
  gpu_.run({&aql});
  ASSERT_TRUE(FakeGpu::eventually(
      [&] { return gpu_.memory.get<uint64_t>(aql.base, done + aql::kSignalValue) == 0; }));
  EXPECT_EQ(gpu_.memory.get<uint64_t>(aql.base, kTarget), 2u);
}

TEST_F(PreemptionTest, ARefusedPacketIsReportedOnce) {
  TestQueue aql = gpu_.make(TestQueue::kAql, 1, 0);
  std::vector<uint32_t> dispatch(16);
  dispatch[0] = aql::kKernelDispatch;
  gpu_.append(aql, dispatch);
  for (int i = 0; i < 3; ++i) {
    gpu_.run({&aql});
    ASSERT_TRUE(gpu_.query_fence());
    ASSERT_TRUE(gpu_.preempt());
  }
  EXPECT_EQ(gpu_.reports().size(), 1u);
  EXPECT_EQ(gpu_.interrupts.count(ih::kSourceBadOpcode), 1u);
  EXPECT_EQ(gpu_.rptr(aql), 0u);
}

TEST_F(PreemptionTest, WorkQueuedWhileUnmappedIsFound) {
  TestQueue sdma = gpu_.make(TestQueue::kSdma, 1, 0, 4);
  TestQueue pm4 = gpu_.make(TestQueue::kPm4, 2, 1);
  gpu_.run({&sdma, &pm4});
  ASSERT_TRUE(gpu_.preempt());
  gpu_.submit(sdma, sdma_fence(kFence, 1));
  gpu_.submit(pm4, pm4_write(kFence, {1}));
  ASSERT_TRUE(gpu_.query_fence());
  EXPECT_EQ(fence(sdma) + fence(pm4), 0u);
  gpu_.run({&sdma, &pm4});
  EXPECT_TRUE(fenced(sdma, 1));
  EXPECT_TRUE(fenced(pm4, 1));
}

// A doorbell of earlier work can arrive when the write pointer in memory is already ahead of it.
TEST_F(PreemptionTest, ADoorbellThatMappingHasOvertakenIsIgnored) {
  for (const auto kind : {TestQueue::kSdma, TestQueue::kPm4}) {
    TestQueue queue = gpu_.make(kind, 1, 0, 4);
    const auto write =
        kind == TestQueue::kSdma ? sdma_write(kTarget, {1}) : pm4_write(kTarget, {1});
    gpu_.append(queue, write);
    const TestQueue earlier = queue;
    gpu_.append(queue, kind == TestQueue::kSdma ? sdma_fence(kFence, 1) : pm4_write(kFence, {1}));
    gpu_.run({&queue});
    EXPECT_TRUE(fenced(queue, 1));
    gpu_.ring(earlier);
    gpu_.submit(queue, kind == TestQueue::kSdma ? sdma_fence(kFence, 2) : pm4_write(kFence, {2}));
    EXPECT_TRUE(fenced(queue, 2));
    EXPECT_TRUE(gpu_.reports().empty());
  }
}

TEST_F(PreemptionTest, ProcessesKeepTheirMemoryWhenTheirVmidChanges) {
  std::vector<TestQueue> queues;
  for (uint32_t process = 1; process <= 6; ++process) {
    queues.push_back(gpu_.make(TestQueue::kSdma, process, 0, process % 5));
  }
  for (uint32_t round = 1; round <= 6; ++round) {
    std::vector<TestQueue*> list;
    for (size_t i = 0; i < queues.size(); ++i) list.push_back(&queues[(i + round) % 6]);
    gpu_.run(list);
    for (size_t i = 0; i < queues.size(); ++i) {
      gpu_.submit(queues[i], sdma_fence(kFence, static_cast<uint32_t>(round * 100 + i)));
    }
    for (size_t i = 0; i < queues.size(); ++i) {
      ASSERT_TRUE(fenced(queues[i], static_cast<uint32_t>(round * 100 + i)));
    }
    ASSERT_TRUE(gpu_.preempt());
  }
}

TEST_F(PreemptionTest, AProcessGetsAnotherVmidEachTimeItIsMapped) {
  TestQueue first = gpu_.make(TestQueue::kPm4, 1, 0);
  TestQueue second = gpu_.make(TestQueue::kPm4, 2, 1);
  for (unsigned vmid = 3; vmid <= 15; ++vmid) {
    TestQueue& queue = vmid % 2 ? first : second;
    gpu_.run({&queue});
    ASSERT_TRUE(gpu_.preempt());
    EXPECT_EQ(gpu_.memory.base_of(vmid), queue.base) << vmid;
  }
  gpu_.run({&second});
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(gpu_.memory.base_of(3), second.base) << "from the first one again";
}

TEST_F(PreemptionTest, MoreQueuesThanDescriptorsAllRun) {
  std::vector<TestQueue> queues;
  std::vector<TestQueue*> list;
  for (unsigned i = 0; i < 30; ++i)
    queues.push_back(gpu_.make(TestQueue::kPm4, 1 + i / 15, i % 15));
  for (TestQueue& queue : queues) list.push_back(&queue);
  gpu_.run(list);
  for (unsigned i = 0; i < 30; ++i) gpu_.submit(queues[i], pm4_write(kFence + 8 * i, {i + 1}));
  for (unsigned i = 0; i < 30; ++i) EXPECT_TRUE(fenced(queues[i], i + 1, kFence + 8 * i)) << i;
  EXPECT_TRUE(gpu_.preempt());
  EXPECT_TRUE(gpu_.reports().empty());
}

// Queues that wait for their turn stay unmapped too.
TEST_F(PreemptionTest, AllOfARunListIsUnmapped) {
  std::vector<TestQueue> queues;
  std::vector<TestQueue*> list;
  for (unsigned i = 0; i < 12; ++i) queues.push_back(gpu_.make(TestQueue::kPm4, 1, i));
  for (TestQueue& queue : queues) list.push_back(&queue);
  gpu_.run(list);
  ASSERT_TRUE(gpu_.preempt());
  for (TestQueue& queue : queues) gpu_.submit(queue, pm4_write(kFence, {1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(fence(queues[0]), 0u);
}

TEST_F(PreemptionTest, ARunListReplacesThePreviousOneWithoutLosingWork) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 1000; ++i) {
    words = words + pm4_packet(pm4::kAtomicMem, {0x2f, low32(kTarget), 0, 1, 0, 0, 0, 0});
  }
  gpu_.append(queue, words + pm4_write(kFence, {1}));
  for (int i = 0; i < 20; ++i) gpu_.run({&queue});
  ASSERT_TRUE(fenced(queue, 1));
  EXPECT_EQ(gpu_.memory.get<uint64_t>(queue.base, kTarget), 1000u);
}

TEST_F(PreemptionTest, OnlyTheNamedProcessIsUnmapped) {
  TestQueue one = gpu_.make(TestQueue::kSdma, 1, 0);
  TestQueue two = gpu_.make(TestQueue::kSdma, 2, 0);
  gpu_.run({&one, &two});
  gpu_.hiq(pm4_packet(pm4::kUnmapQueues, {1 << 4, one.pasid, 0, 0, 0}));
  gpu_.submit(one, sdma_fence(kFence, 1));
  gpu_.submit(two, sdma_fence(kFence, 1));
  EXPECT_TRUE(fenced(two, 1));
  EXPECT_EQ(fence(one), 0u);
}

TEST_F(PreemptionTest, AWaitingQueueDoesNotBlockOthers) {
  TestQueue waiting = gpu_.make(TestQueue::kSdma, 1, 0);
  TestQueue other = gpu_.make(TestQueue::kSdma, 1, 1);
  gpu_.run({&waiting, &other});
  gpu_.submit(waiting, sdma_poll(kTarget, 1) + sdma_fence(kFence, 1));
  for (uint32_t i = 1; i <= 200; ++i) {
    gpu_.submit(other, sdma_fence(kFence + 8, i));
    ASSERT_TRUE(fenced(other, i, kFence + 8));
  }
  gpu_.submit(other, sdma_fence(kTarget, 1));
  EXPECT_TRUE(fenced(waiting, 1));
}

TEST(DelayTest, SomePreemptionsTakeAWhile) {
  using Clock = std::chrono::steady_clock;
  FakeGpu gpu(mi210(), 1);
  gpu.start_hiq();
  TestQueue queue = gpu.make(TestQueue::kPm4, 1, 0);
  unsigned slow = 0;
  for (unsigned i = 0; i < 6; ++i) {
    gpu.run({&queue});
    const auto begin = Clock::now();
    ASSERT_TRUE(gpu.preempt());
    slow += Clock::now() - begin > std::chrono::milliseconds(20);
  }
  EXPECT_GT(slow, 0u);
  EXPECT_LT(slow, 6u);
}

TEST_F(PreemptionTest, DependentWorkCrossesEnginesInOrder) {
  TestQueue a = gpu_.make(TestQueue::kSdma, 1, 0, 0);
  TestQueue b = gpu_.make(TestQueue::kSdma, 1, 1, 2);
  TestQueue c = gpu_.make(TestQueue::kPm4, 1, 2);
  gpu_.run({&a, &b, &c});
  std::vector<uint32_t> on_a, on_b, on_c;
  const uint64_t tokens = 0x30000, data = 0x40000;
  for (uint32_t i = 1; i <= 200; ++i) {
    on_a = on_a + sdma_poll(tokens, i - 1) + sdma_write(data, {i}) + sdma_fence(tokens + 8, i);
    on_b = on_b + sdma_poll(tokens + 8, i) + sdma_copy(data, data + 4 * i, 4) +
           sdma_fence(tokens + 16, i);
    on_c = on_c + pm4_packet(pm4::kWaitRegMem, {1u << 4 | 3, low32(tokens + 16), 0, i, ~0u, 4}) +
           pm4_write(tokens, {i});
  }
  gpu_.submit(b, on_b);
  gpu_.submit(c, on_c);
  gpu_.submit(a, on_a);
  ASSERT_TRUE(fenced(a, 200, tokens));
  for (uint32_t i = 1; i <= 200; ++i) {
    ASSERT_EQ(gpu_.memory.get<uint32_t>(a.base, data + 4 * i), i);
  }
}

TEST_F(PreemptionTest, ABadMqdIsReportedAndTheOthersRun) {
  TestQueue bad = gpu_.make(TestQueue::kPm4, 1, 0);
  TestQueue good = gpu_.make(TestQueue::kPm4, 1, 1);
  gpu_.memory.put<uint32_t>(0, bad.mqd + mqd::kPqControl * 4, 63);
  gpu_.run({&bad, &good});
  gpu_.submit(good, pm4_write(kFence, {1}));
  EXPECT_TRUE(fenced(good, 1));
  EXPECT_THAT(gpu_.reports(), ::testing::ElementsAre(::testing::HasSubstr("cannot be mapped")));
}

TEST_F(PreemptionTest, MoreProcessesThanVmidsAllRun) {
  std::vector<TestQueue> queues;
  std::vector<TestQueue*> list;
  for (uint32_t process = 1; process <= 14; ++process) {
    queues.push_back(gpu_.make(TestQueue::kPm4, process, 0));
  }
  for (TestQueue& queue : queues) list.push_back(&queue);
  gpu_.run(list);
  for (uint32_t round = 1; round <= 3; ++round) {
    for (TestQueue& queue : queues) gpu_.submit(queue, pm4_write(kFence, {round}));
    for (TestQueue& queue : queues) EXPECT_TRUE(fenced(queue, round)) << queue.pasid;
  }
  EXPECT_TRUE(gpu_.preempt());
  EXPECT_TRUE(gpu_.reports().empty());
}

double cpu_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

TEST_F(PreemptionTest, IdleQueuesCostNothingAndWaitingOnesLittle) {
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0);
  gpu_.run({&queue});
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.003);
  gpu_.submit(queue, sdma_poll(kTarget, 1));
  before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

TEST(SavedPlaceTest, SurvivesPackingAndRefusesNonsense) {
  SavedPlace place;
  place.ring_next = 0x123456789abc;
  place.progress = 0x987654321;
  place.skip = 3;
  place.depth = 2;
  place.started = 77;
  place.stage = SavedPlace::kCalled;
  place.ibs = {{{.base = 0x1000, .size = 10, .next = 4}, {.base = 0x2000, .size = 5, .next = 5}}};
  SavedPlace copy;
  copy.depth = 1;  // as CP_HQD_IB_CONTROL says
  copy.ibs[0] = place.ibs[0];
  ASSERT_TRUE(copy.unpack(place.pack()));
  EXPECT_EQ(copy.depth, 2u);
  EXPECT_EQ(copy.pack(), place.pack());
  auto words = place.pack();
  words[6] = 2;
  EXPECT_FALSE(copy.unpack(words));
  words = place.pack();
  words[13] = 6;  // beyond the end of the second buffer
  EXPECT_FALSE(copy.unpack(words));
  SavedPlace outside;
  ASSERT_TRUE(outside.unpack(place.pack()));
  EXPECT_EQ(outside.depth, 0u) << "a second buffer without a first one";
  EXPECT_FALSE(copy.unpack(SavedPlace::Words{}));
}

}  // namespace
}  // namespace gpu::test
