// SPDX-License-Identifier: GPL-2.0
// Queues that MES maps for the driver: its frames, and the state of a queue between them.
#include "engines/mes.h"

#include <gtest/gtest.h>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint64_t kData = 0x8000;
constexpr uint32_t kPattern = 0xc0ffee;
constexpr uint64_t kRingMqd = 0x500000, kRing = 0x600000;  // of graphics
constexpr uint64_t kStart = 16;                            // its pointers
constexpr uint32_t kRingDoorbell = 0x458;

class MesTest : public testing::Test {
 protected:
  MesTest() { gpu_.start_mes(); }

  bool arrives(uint64_t base, uint64_t address, uint32_t value) {
    return FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(base, address) == value; });
  }
  uint32_t mqd_word(const TestQueue& queue, unsigned word) {
    return gpu_.memory.get<uint32_t>(0, queue.mqd + word * uint64_t{4});
  }

  // more: words of the frame
  void map_graphics_ring(const std::map<size_t, uint32_t>& more = {{36, 1 << 13}}) {
    const auto word = [&](unsigned at, uint32_t value) {
      gpu_.memory.put<uint32_t>(0, kRingMqd + at * uint64_t{4}, value);
    };
    word(mqd::kPqBase, low32(kRing >> 8));
    word(mqd::kPqControl, 9);
    word(mqd::kPqRptr, low32(kStart));
    word(149, low32(kStart));      // cp_gfx_hqd_wptr
    word(mqd::kPqWptr, kPattern);  // has another meaning there
    std::map<size_t, uint32_t> frame = {{18, kRingDoorbell / 4}, {19, low32(kRingMqd)}, {27, 0}};
    frame.insert(more.begin(), more.end());
    ASSERT_TRUE(gpu_.mes(mes_frame(2, frame), 37));
  }

  FakeGpu gpu_{navi31()};
};

TEST_F(MesTest, AnswersAQueryOfItsStatus) {
  EXPECT_TRUE(gpu_.mes(mes_frame(11, {}), 2));
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(MesTest, AnAddedQueueRunsInAVmidOfItsProcess) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  gpu_.submit(queue, pm4_write(kData, {kPattern}));
  EXPECT_TRUE(arrives(queue.base, kData, kPattern));
  EXPECT_EQ(gpu_.memory.base_of(8), queue.base) << "the first VMID that the driver assigned";
  EXPECT_EQ(gpu_.memory.pasid_of(8), queue.pasid);
}

TEST_F(MesTest, AnotherQueueOfAProcessInvalidatesNoTranslations) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0), other = gpu_.make(TestQueue::kPm4, 1, 1);
  ASSERT_TRUE(gpu_.add_queue(queue));
  EXPECT_EQ(gpu_.memory.binds(), 1u);
  ASSERT_TRUE(gpu_.add_queue(other));
  EXPECT_EQ(gpu_.memory.binds(), 1u);
  gpu_.submit(other, pm4_write(kData, {kPattern}));
  EXPECT_TRUE(arrives(other.base, kData, kPattern));
}

TEST_F(MesTest, ARemovedQueueContinuesWhenItIsAddedAgain) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  const auto first = pm4_write(kData, {1});
  gpu_.submit(queue, first);
  ASSERT_TRUE(arrives(queue.base, kData, 1));
  ASSERT_TRUE(gpu_.remove_queue(queue));
  EXPECT_EQ(mqd_word(queue, mqd::kPqRptr), first.size());
  EXPECT_EQ(mqd_word(queue, mqd::kPqWptr), first.size());
  EXPECT_EQ(mqd_word(queue, mqd::kActive), 0u);
  gpu_.submit(queue, pm4_write(kData, {2}));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kData), 1u) << "it is not mapped";
  ASSERT_TRUE(gpu_.add_queue(queue));
  EXPECT_TRUE(arrives(queue.base, kData, 2)) << "queued while it was not mapped";
  EXPECT_EQ(gpu_.memory.base_of(9), queue.base) << "VMIDs are given in turn";
}

TEST_F(MesTest, AQueueThatAResetHasEndedIsRemovedOnce) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  gpu_.engines->reset();
  gpu_.start_mes();
  EXPECT_TRUE(gpu_.remove_queue(queue));
  EXPECT_TRUE(gpu_.reports().empty());
  EXPECT_TRUE(gpu_.remove_queue(queue));
  EXPECT_EQ(gpu_.reports().size(), 1u) << "the driver removes a queue that it has not added";
}

TEST_F(MesTest, CommandsForAQueueThatHangsAreNotCompleted) {
  constexpr uint64_t kStatus = 0x1e0100;
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  const auto write = pm4_write(kData, {1});
  auto truncated = pm4_write(kData + 8, {2});
  const uint32_t last = truncated.back();
  truncated.pop_back();
  gpu_.submit(queue, write + truncated);
  ASSERT_TRUE(arrives(queue.base, kData, 1));
  const auto command = [&](uint32_t opcode, size_t status, uint32_t value) {
    auto frame = mes_frame(opcode, {{1, opcode == 3 ? queue.doorbell / 4 : 1}});
    frame[status] = kStatus;
    frame[status + 2] = value;
    gpu_.hiq_async(frame);
    EXPECT_TRUE(gpu_.mes(mes_frame(11, {}), 2)) << "the next one is completed";
    return gpu_.memory.get<uint32_t>(0, kStatus) == value;
  };
  EXPECT_FALSE(command(3, 5, 1)) << "REMOVE_QUEUE";
  EXPECT_FALSE(command(6, 7, 2)) << "SUSPEND";
  gpu_.submit(queue, {last});
  ASSERT_TRUE(arrives(queue.base, kData + 8, 2));
  EXPECT_TRUE(command(3, 5, 3)) << "the packet was complete";
}

TEST_F(MesTest, AQueueSignalsItsFenceInTheDriversMemory) {
  constexpr uint64_t kFence = 0x1f0000;
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  gpu_.memory.put<uint64_t>(0, queue.mqd + mqd::kFence * uint64_t{4}, kFence);
  ASSERT_TRUE(gpu_.add_queue(queue));
  const auto first = pm4_write(kData, {kPattern});
  const auto signal = pm4_packet(pm4::kProtectedFenceSignal, {0});
  gpu_.submit(queue, first + signal);
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(181) == 1; }));
  EXPECT_EQ(gpu_.memory.get<uint64_t>(0, kFence), first.size() + signal.size());
  EXPECT_EQ(gpu_.interrupts.all()[0].data[0], queue.doorbell / 4);
}

TEST_F(MesTest, AQueueWithoutAFenceStopsAtItsSignal) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  gpu_.submit(queue, pm4_packet(pm4::kProtectedFenceSignal, {0}));
  ASSERT_TRUE(FakeGpu::eventually([&] { return !gpu_.reports().empty(); }));
  EXPECT_EQ(gpu_.interrupts.count(181), 0u);
}

TEST_F(MesTest, ASuspendedGangRestsUntilItIsResumed) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0), other = gpu_.make(TestQueue::kPm4, 2, 1);
  ASSERT_TRUE(gpu_.add_queue(queue));
  ASSERT_TRUE(gpu_.add_queue(other));
  const uint64_t fence = 0x1f0000;
  ASSERT_TRUE(
      gpu_.mes(mes_frame(6, {{2, low32(FakeGpu::gang_of(queue))}, {4, low32(fence)}, {6, 77}}), 7));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, fence), 77u);
  gpu_.submit(queue, pm4_write(kData, {kPattern}));
  gpu_.submit(other, pm4_write(kData, {kPattern}));
  EXPECT_TRUE(arrives(other.base, kData, kPattern));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kData), 0u);
  ASSERT_TRUE(gpu_.mes(mes_frame(7, {{2, low32(FakeGpu::gang_of(queue))}}), 4));
  EXPECT_TRUE(arrives(queue.base, kData, kPattern));
}

TEST_F(MesTest, AllGangsAreSuspendedAtOnceAndMayBeRemovedThen) {
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  ASSERT_TRUE(gpu_.mes(mes_frame(6, {{1, 1}}), 7));
  ASSERT_TRUE(gpu_.remove_queue(queue));
  ASSERT_TRUE(gpu_.mes(mes_frame(7, {{1, 1}}), 4));
  gpu_.submit(queue, sdma_write(kData, {kPattern}));
  ASSERT_TRUE(gpu_.add_queue(queue));
  EXPECT_TRUE(arrives(queue.base, kData, kPattern));
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(MesTest, AnSdmaQueueRunsOnTheEngineOfItsMqd) {
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0, 1);
  ASSERT_TRUE(gpu_.add_queue(queue));
  gpu_.submit(queue, sdma_write(kData, {kPattern}) + std::vector<uint32_t>{sdma::kTrap, 5});
  ASSERT_TRUE(arrives(queue.base, kData, kPattern));
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(49) == 1; }));
  const Interrupt trap = gpu_.interrupts.all()[0];
  EXPECT_EQ(trap.client, 0x0a);
  EXPECT_EQ(trap.ring >> 4, 1) << "the engine";
  EXPECT_NE(trap.ring & 15, 0) << "not the driver's own ring";
  EXPECT_FALSE(trap.from_mmhub);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.rptr(queue) == queue.wptr_value; }));
}

// As with a dispatch whose waves cannot be saved.
TEST_F(MesTest, AQueueThatIsOccupiedIsRemovedAfterwards) {
  constexpr uint64_t kFence = 0x1f0000;
  constexpr uint32_t kMilliseconds = 300;
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  gpu_.memory.put<uint64_t>(0, queue.mqd + mqd::kFence * uint64_t{4}, kFence);
  ASSERT_TRUE(gpu_.add_queue(queue));
  const auto began = std::chrono::steady_clock::now();
  const auto signal = pm4_packet(pm4::kProtectedFenceSignal, {0});
  gpu_.submit(queue, pm4_packet(pm4::kNop, {pm4::kOccupy, kMilliseconds}) +
                         pm4_write(kData, {kPattern}) + signal);
  ASSERT_TRUE(arrives(queue.base, kData, kPattern)) << "the next packet does not wait";
  EXPECT_EQ(gpu_.memory.get<uint64_t>(0, kFence), 0u) << "a fence does";
  ASSERT_TRUE(gpu_.remove_queue(queue));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(kMilliseconds));
}

TEST_F(MesTest, AnSdmaEngineInvalidatesByTheGcHub) {
  gpu_.start_sdma_ring(0);
  const uint32_t request = navi31().gfx_hub + navi31().gfx_hub_layout.invalidate_request + 6;
  gpu_.sdma_ring(0, {6 << 16 | sdma::kVmInvalidation << 8 | sdma::kPollRegMem, 0xf80100, ~0u, 0});
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.registers.read(request) == 0xf80100; }));
}

TEST_F(MesTest, WritesARegisterAndWaitsForAnother) {
  constexpr uint32_t kRequest = 0x291c, kAck = 0x292e;
  const uint64_t fence = gpu_.mes_async(
      mes_frame(14, {{1, 4}, {6, 1}, {7, 0x70100}, {8, 0x100}, {9, kRequest}, {10, kAck}}), 2);
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.registers.read(kRequest) == 0x70100; }));
  EXPECT_NE(gpu_.memory.get<uint64_t>(0, 0x1e0000), fence) << "before the acknowledgement";
  gpu_.registers.write(kAck, 0x100);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.memory.get<uint64_t>(0, 0x1e0000) == fence; }));
}

TEST_F(MesTest, ReadsAndWritesRegisters) {
  ASSERT_TRUE(gpu_.mes(mes_frame(14, {{1, 0}, {6, 0xc040}, {7, kPattern}}), 2));
  EXPECT_EQ(gpu_.registers.read(0xc040), kPattern);
  ASSERT_TRUE(gpu_.mes(mes_frame(14, {{1, 3}, {6, 0xc040}, {7, 0x1f0000}}), 2));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, 0x1f0000), kPattern);
}

TEST_F(MesTest, TheGraphicsRingStartsAtItsOwnWritePointer) {
  map_graphics_ring();
  const auto packet = pm4_write(kData, {kPattern});
  gpu_.memory.put_words(0, kRing + kStart * 4, packet);
  gpu_.engines->ring(kRingDoorbell, kStart + packet.size(), 8);
  EXPECT_TRUE(arrives(0, kData, kPattern));
  ASSERT_TRUE(gpu_.mes(mes_frame(3, {{1, kRingDoorbell / 4}, {4, 1 << 3}}), 5));
  gpu_.memory.put_words(0, kRing + (kStart + packet.size()) * 4, pm4_write(kData, {1}));
  gpu_.engines->ring(kRingDoorbell, kStart + 2 * packet.size(), 8);
  ASSERT_TRUE(gpu_.mes(mes_frame(11, {}), 2));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kData), kPattern) << "unmapped";
}

// The kernel is s_endpgm. COMPUTE_PGM_LO, NUM_THREAD_X.
TEST_F(MesTest, TheGraphicsRingDispatchesKernels) {
  constexpr uint64_t kCode = 0x700000;
  constexpr uint32_t kThreads = 0x207, kPgm = 0x20c, kEndpgm = 0xbfb00000;
  map_graphics_ring();
  gpu_.memory.put<uint32_t>(0, kCode, kEndpgm);
  const auto packets = pm4_packet(pm4::kSetShReg, {kPgm, low32(kCode >> 8), 0}) +
                       pm4_packet(pm4::kSetShReg, {kThreads, 32, 1, 1}) +
                       pm4_packet(pm4::kDispatchDirect, {1, 1, 1, initiator::kShaderEnable}) +
                       pm4_write(kData, {kPattern});
  gpu_.memory.put_words(0, kRing + kStart * 4, packets);
  gpu_.engines->ring(kRingDoorbell, kStart + packets.size(), 8);
  EXPECT_TRUE(arrives(0, kData, kPattern));
  EXPECT_TRUE(gpu_.reports().empty());
}

// Its page table lacks the flag that it is valid.
TEST_F(MesTest, TheSelfTestOfTheDriverHasAGraphicsQueueWithAVmid) {
  constexpr uint32_t kTable = 0x10000000;
  map_graphics_ring({{1, 0x8001}, {2, kTable}, {10, 1 << 12}});
  const auto packet =
      pm4_packet(pm4::kSetUconfigReg, {0x40, kPattern}) + pm4_write(kData, {kPattern});
  gpu_.memory.put_words(kTable | 1, kRing + kStart * 4, packet);
  gpu_.engines->ring(kRingDoorbell, kStart + packet.size(), 8);
  EXPECT_TRUE(arrives(kTable | 1, kData, kPattern));
  EXPECT_EQ(gpu_.registers.read(0xc040), kPattern);
  EXPECT_EQ(gpu_.memory.base_of(8), kTable | 1);
  ASSERT_TRUE(gpu_.mes(mes_frame(3, {{1, kRingDoorbell / 4}}), 5));
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(MesTest, AGraphicsQueueOfAProcessIsReported) {
  map_graphics_ring({{1, 0x8001}, {2, 0x10000001}, {10, 1 << 12}});
  ASSERT_EQ(gpu_.reports().size(), 1u);
  EXPECT_NE(gpu_.reports()[0].find("type 0"), std::string::npos) << gpu_.reports()[0];
}

TEST_F(MesTest, AGraphicsRingThatHangsContinuesBehindItsPackets) {
  constexpr uint64_t kWptr = 0x1f0000;
  map_graphics_ring();
  const auto wait = pm4_packet(pm4::kWaitRegMem, {1 << 4 | 3, low32(kData), 0, kPattern, ~0u, 4});
  const auto packets = wait + pm4_write(kData + 8, {1});
  gpu_.memory.put_words(0, kRing + kStart * 4, packets);
  gpu_.engines->ring(kRingDoorbell, kStart + packets.size(), 8);
  const auto end = kStart + packets.size();
  gpu_.memory.put<uint64_t>(0, kWptr, end);
  const auto reset = mes_frame(
      8, {{1, 1 << 3}, {11, low32(kRingMqd)}, {13, kRingDoorbell / 4}, {14, low32(kWptr)}});
  ASSERT_TRUE(gpu_.mes(reset, 24));
  const auto next = pm4_write(kData + 16, {2});
  gpu_.memory.put_words(0, kRing + end * 4, next);
  gpu_.engines->ring(kRingDoorbell, end + next.size(), 8);
  EXPECT_TRUE(arrives(0, kData + 16, 2));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kData + 8), 0u) << "written before the reset";
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_F(MesTest, AResetQueueIsNotSaved) {
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  ASSERT_TRUE(gpu_.add_queue(queue));
  gpu_.submit(queue, pm4_write(kData, {1}));
  ASSERT_TRUE(arrives(queue.base, kData, 1));
  ASSERT_TRUE(gpu_.mes(mes_frame(8, {{1, 1}, {4, queue.doorbell / 4}}), 24));
  EXPECT_EQ(mqd_word(queue, mqd::kPqRptr), 0u);
  EXPECT_TRUE(gpu_.remove_queue(queue));
}

TEST_F(MesTest, StopsAtAFrameThatItDoesNotModel) {
  const uint64_t fence = gpu_.mes_async(mes_frame(12, {}), 2);
  ASSERT_TRUE(FakeGpu::eventually([&] { return !gpu_.reports().empty(); }));
  EXPECT_NE(gpu_.memory.get<uint64_t>(0, 0x1e0000), fence);
  EXPECT_NE(gpu_.reports()[0].find("0x400c1"), std::string::npos) << gpu_.reports()[0];
}

TEST_F(MesTest, APipeResetRemovesTheRingOfFrames) {
  const uint32_t active = navi31().cp.hqd + mqd::kActive - mqd::kHqdFirst;
  gpu_.registers.write(navi31().cp.select, 3 << 2);
  EXPECT_EQ(gpu_.registers.read(active), 1u);
  gpu_.registers.write(navi31().cp.mes_control.value_or(0), 1 << 16);
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.registers.read(active) == 0; }));
}

// What MES keeps of a gang and of a process is lost when their last queue is removed.
TEST_F(MesTest, ContextsOfRemovedQueuesAreOverwritten) {
  TestQueue first = gpu_.make(TestQueue::kPm4, 1, 0);
  TestQueue second = gpu_.make(TestQueue::kPm4, 1, 1);
  const auto word = [&](uint64_t at) { return gpu_.memory.get<uint32_t>(0, at); };
  const uint64_t process = FakeGpu::process_context(first);
  ASSERT_TRUE(gpu_.add_queue(first));
  ASSERT_TRUE(gpu_.add_queue(second));
  ASSERT_TRUE(gpu_.remove_queue(first));
  EXPECT_NE(word(FakeGpu::gang_of(first)), 0u);
  EXPECT_EQ(word(FakeGpu::gang_of(second)), 0u);
  EXPECT_EQ(word(process), 0u);
  ASSERT_TRUE(gpu_.remove_queue(second));
  EXPECT_NE(word(FakeGpu::gang_of(second)), 0u);
  EXPECT_NE(word(process), 0u);
}

}  // namespace
}  // namespace gpu::test
