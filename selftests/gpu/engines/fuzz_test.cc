// SPDX-License-Identifier: GPL-2.0
// Garbage on every kind of queue: the model neither crashes nor hangs, and preemption still ends.
#include <gtest/gtest.h>

#include <random>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

class Garbage {
 public:
  explicit Garbage(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  uint32_t word() { return static_cast<uint32_t>(random_()); }
  // Mostly in reach, so that packets get further than their first access.
  uint32_t operand() {
    switch (below(4)) {
      case 0: return word();
      case 1: return 0;
      case 2: return below(64);
      default: return below(FakeMemory::kSize) & ~3u;
    }
  }
  std::vector<uint32_t> sdma_packet() {
    std::vector<uint32_t> words = {below(17) | below(9) << 8 | (below(4) ? 0 : word() << 16)};
    for (uint32_t i = below(14); i > 0; --i) words.push_back(operand());
    return words;
  }
  std::vector<uint32_t> compute_packet() {
    static constexpr uint8_t kOpcodes[] = {0x10, 0x1e, 0x22, 0x37, 0x3c, 0x3f, 0x40, 0x45, 0x49,
                                           0x50, 0x76, 0x79, 0x93, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4,
                                           0xa5, 0x15, 0xff};
    std::vector<uint32_t> body;
    for (uint32_t i = 1 + below(12); i > 0; --i) body.push_back(operand());
    auto words = pm4_packet(kOpcodes[below(std::size(kOpcodes))], body);
    if (below(16) == 0) words[0] = word();
    return words;
  }
  std::vector<uint32_t> aql_packet() {
    std::vector<uint32_t> words = {below(7) | below(3) << 16};
    while (words.size() < 16) words.push_back(operand());
    return words;
  }

 private:
  std::mt19937 random_;
};

std::vector<uint32_t> packet_for(Garbage& garbage, TestQueue::Kind kind) {
  switch (kind) {
    case TestQueue::kSdma: return garbage.sdma_packet();
    case TestQueue::kPm4: return garbage.compute_packet();
    default: return garbage.aql_packet();
  }
}

void fuzz(TestQueue::Kind kind, uint32_t seed) {
  constexpr unsigned kRounds = 1000, kPackets = 100;
  Garbage garbage(seed);
  FakeGpu gpu;
  gpu.start_hiq();
  for (unsigned round = 0; round < kRounds; ++round) {
    TestQueue queue = gpu.make(kind, 1, 0, garbage.below(5));
    // As a new queue: no place that an earlier one has left.
    gpu.memory.put<uint64_t>(queue.base, queue.wptr(), 0);
    for (unsigned at = kind == TestQueue::kSdma ? 3 : 138; at < 512; ++at) {
      const bool pointers = kind == TestQueue::kSdma ? at < 7 || (at >= 64 && at < 90)
                                                     : at == 138 || at == 182 || at >= 256;
      if (pointers && (kind != TestQueue::kSdma || at < 128)) {
        gpu.memory.put<uint32_t>(0, queue.mqd + at * 4, 0);
      }
    }
    gpu.run({&queue});
    std::vector<uint32_t> words;
    for (unsigned i = 0; i < kPackets; ++i) {
      // A stopped queue would hide what follows, so valid ones are few and short.
      words = words + packet_for(garbage, kind);
    }
    gpu.submit(queue, words);
    ASSERT_TRUE(gpu.query_fence()) << "round " << round;
    ASSERT_TRUE(gpu.preempt()) << "round " << round;
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(FuzzTest, GarbageOnAnSdmaQueue) { fuzz(TestQueue::kSdma, 1); }
TEST(FuzzTest, GarbageOnAPm4Queue) { fuzz(TestQueue::kPm4, 2); }
TEST(FuzzTest, GarbageOnAnAqlQueue) { fuzz(TestQueue::kAql, 3); }

TEST(FuzzTest, GarbageInMqds) {
  Garbage garbage(4);
  FakeGpu gpu;
  gpu.start_hiq();
  for (unsigned round = 0; round < 2000; ++round) {
    TestQueue queue = gpu.make(static_cast<TestQueue::Kind>(round % 3), 1, 0, garbage.below(8));
    for (unsigned i = 0; i < 8; ++i) {
      gpu.memory.put<uint32_t>(0, queue.mqd + garbage.below(512) * 4, garbage.operand());
    }
    if (garbage.below(2)) {
      gpu.memory.put<uint32_t>(0, queue.mqd + sdma_mqd::kPlace * 4, SavedPlace::kMagic);
      gpu.memory.put<uint32_t>(0, queue.mqd + mqd::kPlace * 4, SavedPlace::kMagic);
    }
    gpu.run({&queue});
    gpu.ring(queue);
    ASSERT_TRUE(gpu.preempt()) << "round " << round;
  }
}

TEST(FuzzTest, GarbageOnTheKernelsOwnQueues) {
  Garbage garbage(5);
  for (unsigned round = 0; round < 200; ++round) {
    FakeGpu gpu;
    gpu.start_hiq();
    gpu.start_sdma_ring(0);
    std::vector<uint32_t> words, copies;
    for (unsigned i = 0; i < 100; ++i) words = words + garbage.compute_packet();
    for (unsigned i = 0; i < 100; ++i) copies = copies + garbage.sdma_packet();
    gpu.hiq_async(words);
    gpu.sdma_ring(0, copies);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    gpu.engines->reset();
  }
}

}  // namespace
}  // namespace gpu::test
