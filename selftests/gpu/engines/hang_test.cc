// SPDX-License-Identifier: GPL-2.0
// Queues that cannot be preempted, because the end of a packet is missing, until they are reset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint64_t kFence = 0x8000;
constexpr uint64_t kTarget = 0x800000;
constexpr uint64_t kBuffer = 0x20000;
constexpr uint64_t kDone = 0x1e0000;                                  // in VMID 0
constexpr uint64_t kReported = 0x160000 + mqd::kHungDoorbell * 4ull;  // in the MQD of the HIQ

std::vector<uint32_t> cut(std::vector<uint32_t> packet, size_t words) {
  packet.resize(words);
  return packet;
}

class HangTest : public ::testing::Test {
 protected:
  explicit HangTest(const Asic& asic = mi210()) : gpu_(asic) { gpu_.start_hiq(); }

  bool fenced(const TestQueue& queue, uint32_t value, uint64_t at = kFence) {
    return FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(queue.base, at) == value; });
  }
  void preempt_async() {
    gpu_.hiq_async(pm4_packet(pm4::kUnmapQueues, {3 << 4, 0, 0, 0, 0}) +
                   pm4_packet(pm4::kQueryStatus, {2u << 30, 0, kDone, 0, 77, 0}));
  }
  uint64_t done() { return gpu_.memory.get<uint64_t>(0, kDone); }
  // Resets each compute queue that is mapped, as the driver does. Returns their number.
  unsigned reset_mapped() {
    const auto& cp = mi210().cp;
    const uint32_t active = cp.hqd + mqd::kActive - mqd::kHqdFirst;
    unsigned mapped = 0;
    for (uint32_t queue = 0; queue < 8; ++queue) {
      gpu_.registers.write(cp.select, queue << 8 | 1 << 2);
      if (!(gpu_.registers.read(active) & 1)) continue;
      ++mapped;
      gpu_.registers.write(cp.queue_reset, 1);
      EXPECT_TRUE(FakeGpu::eventually([&] { return !gpu_.registers.read(active); }));
    }
    return mapped;
  }
  // The HIQ's MQD names the queue that did not stop, and its descriptor is reset.
  void expect_reset_alone(const TestQueue& hung) {
    ASSERT_TRUE(gpu_.preempt());
    EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kReported), hung.doorbell / 4);
    EXPECT_EQ(reset_mapped(), 1u);
    gpu_.memory.put<uint32_t>(0, kReported, 0);
    ASSERT_TRUE(gpu_.preempt());
    EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kReported), 0u) << "it was reset";
  }
  // `packet` executes the buffer, which is two words too short.
  void expect_reset_alone_in_buffer(TestQueue::Kind kind,
                                    std::vector<uint32_t> (*packet)(uint32_t dwords)) {
    TestQueue hung = gpu_.make(kind, 1, 0);
    const auto buffer = pm4_write(kFence, {1}) + cut(pm4_write(kTarget, {1, 2}), 4);
    gpu_.memory.put_words(hung.base, kBuffer, buffer);
    gpu_.append(hung, packet(static_cast<uint32_t>(buffer.size())));
    gpu_.run({&hung});
    ASSERT_TRUE(fenced(hung, 1));
    expect_reset_alone(hung);
    EXPECT_THAT(gpu_.reports(), ::testing::ElementsAre(::testing::HasSubstr("does not fit")));
  }
  FakeGpu gpu_;
};

TEST_F(HangTest, AResetEndsAHungPreemption) {
  TestQueue queue = gpu_.make(TestQueue::kSdma, 1, 0);
  gpu_.run({&queue});
  gpu_.engines->hang_preemption();
  preempt_async();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(done(), 0u);
  gpu_.engines->reset();
  gpu_.submit(queue, sdma_fence(kFence, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(gpu_.memory.get<uint32_t>(queue.base, kFence), 0u);
  EXPECT_EQ(gpu_.registers.read(mi210().sdma[0] + *mi210().sdma_halt), 1u);
}

TEST_F(HangTest, ATruncatedPacketHangsItsQueueUntilItIsReset) {
  TestQueue hung = gpu_.make(TestQueue::kPm4, 1, 0);
  TestQueue other = gpu_.make(TestQueue::kPm4, 1, 1);
  gpu_.append(hung, pm4_write(kFence, {1}) + cut(pm4_write(kTarget, {1, 2, 3, 4}), 3));
  gpu_.append(other, pm4_write(kFence + 8, {1}));
  gpu_.run({&hung, &other});
  ASSERT_TRUE(fenced(hung, 1));
  ASSERT_TRUE(fenced(other, 1, kFence + 8));
  expect_reset_alone(hung);
}

TEST_F(HangTest, APm4QueueHangsInABufferThatEndsInsideOfAPacket) {
  expect_reset_alone_in_buffer(TestQueue::kPm4, [](uint32_t dwords) {
    return pm4_packet(pm4::kIndirectBuffer, {kBuffer, 0, dwords});
  });
}

TEST_F(HangTest, AnAqlQueueHangsInABufferThatEndsInsideOfAPacket) {
  expect_reset_alone_in_buffer(TestQueue::kAql, [](uint32_t dwords) {
    std::vector<uint32_t> packet(aql::kPacketDwords);
    packet[0] = aql::kVendor | aql::kPm4Ib << 16;
    packet[1] = 3u << 30 | 2 << 16 | pm4::kIndirectBuffer << 8;
    packet[2] = kBuffer;
    packet[4] = 1u << 23 | dwords;
    return packet;
  });
}

// Its producer has reserved the slot, and fills it later.
TEST_F(HangTest, AnAqlQueueIsPreemptedBeforeASlotThatIsInvalid) {
  TestQueue queue = gpu_.make(TestQueue::kAql, 1, 0);
  std::vector<uint32_t> barrier(aql::kPacketDwords);
  barrier[0] = aql::kInvalid;
  barrier[aql::kCompletionSignalDword] = kFence;
  gpu_.memory.put<uint64_t>(queue.base, kFence + aql::kSignalValue, 1);
  gpu_.append(queue, barrier);
  gpu_.run({&queue});
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(gpu_.memory.get<uint32_t>(0, kReported), 0u);
  gpu_.memory.put<uint32_t>(queue.base, queue.ring, aql::kBarrierAnd);
  gpu_.run({&queue});
  EXPECT_TRUE(fenced(queue, 0, kFence + aql::kSignalValue));
}

// The driver of this chip does not look for such an engine: its time limit for preemption ends.
TEST_F(HangTest, ATruncatedSdmaPacketHangsThePreemption) {
  TestQueue hung = gpu_.make(TestQueue::kSdma, 1, 0);
  TestQueue other = gpu_.make(TestQueue::kSdma, 1, 1, 1);
  const auto packet = sdma_write(kTarget, {1, 2, 3, 4});
  gpu_.append(hung, sdma_fence(kFence, 1) + cut(packet, 5));
  gpu_.append(other, sdma_fence(kFence + 8, 1));
  gpu_.run({&hung, &other});
  ASSERT_TRUE(fenced(hung, 1));
  ASSERT_TRUE(fenced(other, 1, kFence + 8));
  preempt_async();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(done(), 0u);
  gpu_.submit(hung, {packet.begin() + 5, packet.end()});
  EXPECT_TRUE(FakeGpu::eventually([&] { return done() == 77; })) << "the packet is complete";
  EXPECT_EQ(gpu_.memory.get<uint32_t>(hung.base, kTarget + 12), 4u);
}

TEST_F(HangTest, AnSdmaQueueHangsInABufferThatEndsInsideOfAPacket) {
  TestQueue hung = gpu_.make(TestQueue::kSdma, 1, 0);
  const auto buffer = sdma_fence(kFence, 1) + cut(sdma_fence(kFence, 2), 3);
  gpu_.memory.put_words(hung.base, kBuffer, buffer);
  gpu_.append(hung, {sdma::kIndirect, kBuffer, 0, static_cast<uint32_t>(buffer.size()), 0, 0});
  gpu_.run({&hung});
  ASSERT_TRUE(fenced(hung, 1));
  preempt_async();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(done(), 0u);
  EXPECT_THAT(gpu_.reports(), ::testing::ElementsAre(::testing::HasSubstr("does not fit")));
}

class SelectedHangTest : public HangTest {
 protected:
  SelectedHangTest() : HangTest(mi300x_small()) {}
  uint32_t selected(unsigned engine, uint32_t SdmaSelectedRegisters::* which) {
    const Asic& asic = mi300x_small();
    return gpu_.registers.read(asic.sdma[engine] + *asic.sdma_selected.*which);
  }
};

// The driver finds the queue in registers of its engine.
TEST_F(SelectedHangTest, ATruncatedSdmaPacketKeepsItsEngineBusy) {
  TestQueue hung = gpu_.make(TestQueue::kSdma, 1, 0, 1);
  TestQueue other = gpu_.make(TestQueue::kSdma, 1, 1, 0);
  const auto packet = sdma_write(kTarget, {1, 2, 3, 4});
  gpu_.append(hung, sdma_fence(kFence, 1) + cut(packet, 5));
  gpu_.append(other, sdma_fence(kFence + 8, 1));
  gpu_.run({&hung, &other});
  ASSERT_TRUE(fenced(hung, 1));
  ASSERT_TRUE(fenced(other, 1, kFence + 8));
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(selected(1, &SdmaSelectedRegisters::status), 1u);
  EXPECT_EQ(selected(1, &SdmaSelectedRegisters::doorbell), hung.doorbell);
  EXPECT_EQ(selected(0, &SdmaSelectedRegisters::status), 0u);
  gpu_.submit(hung, {packet.begin() + 5, packet.end()});
  EXPECT_TRUE(fenced(hung, 4, kTarget + 12));
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(selected(1, &SdmaSelectedRegisters::status), 0u);
}

}  // namespace
}  // namespace gpu::test
