// SPDX-License-Identifier: GPL-2.0
// Garbage on every kind of queue: the model neither crashes nor hangs, and preemption still ends.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

// Each run has other garbage. A run prints its seed; CRIU_TEST_SEED=SEED repeats it.
uint32_t run_seed() {
  static const uint32_t seed = [] {
    const char* text = getenv("CRIU_TEST_SEED");
    const auto value =
        text ? static_cast<uint32_t>(strtoul(text, nullptr, 0)) : std::random_device()();
    std::cout << "CRIU_TEST_SEED=" << value << std::endl;
    return value;
  }();
  return seed;
}

class Garbage {
 public:
  // Each test of a run has different garbage, selected by its number.
  explicit Garbage(uint32_t test) : random_(run_seed() + test) {}

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  uint32_t word() { return static_cast<uint32_t>(random_()); }
  // Mostly a mapped address, so that packets get further than their first access.
  uint32_t operand() {
    switch (below(40)) {
      case 0:
        return word();
      case 1:
        return 0;
      case 2:
        return below(64);
      default:
        return below(kHole) & ~7u;
    }
  }
  // Clears the words of a mask, most of the time: the high halves of addresses.
  void clear(std::vector<uint32_t>& words, uint32_t mask) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (mask >> i & 1 && below(60)) words[i] = 0;
    }
  }
  // Mostly of the right length, so that a packet follows.
  std::vector<uint32_t> sdma_packet() {
    struct Form {
      uint32_t header, words, highs;
    };
    static constexpr Form kForms[] = {{0, 1, 0},
                                      {1, 7, 1 << 4 | 1 << 6},
                                      {1 | 1 << 27, 9, 1 << 4 | 1 << 6 | 1 << 8},
                                      {1 | 4 << 8, 13, 1 << 2 | 1 << 7},
                                      {4, 6, 1 << 2},
                                      {5, 4, 1 << 2},
                                      {6, 2, 0},
                                      {8, 6, 0},
                                      {8 | 1u << 31, 6, 1 << 2},
                                      {8 | 1 << 8, 4, 1 << 3},
                                      {9, 5, 1 << 2},
                                      {10 | 0x2fu << 25, 8, 1 << 2},
                                      {10 | 0x08u << 25, 8, 1 << 2},
                                      {11, 5, 1 << 2},
                                      {11 | 2u << 30, 5, 1 << 2},
                                      {12, 10, 1 << 2},
                                      {13 | 1 << 8, 3, 1 << 2},
                                      {14 | 15u << 28, 3, 0},
                                      {15, 2, 0},
                                      {16, 2, 0}};
    if (below(200) == 0) return {word(), operand(), operand()};
    const Form& form = kForms[below(std::size(kForms))];
    std::vector<uint32_t> words = {form.header ^ (below(40) ? 0 : word() & 0xffff0000)};
    while (words.size() < form.words) words.push_back(operand());
    clear(words, form.highs);
    if (bits(form.header, 7, 0) == sdma::kIndirect) words[1] = kFillers, words[3] = below(64);
    // Few transfers are so long that they last until the preemption.
    if (bits(form.header, 15, 0) == sdma::kCopy && below(20)) words[1] &= 0xffff;
    if (bits(form.header, 7, 0) == sdma::kConstFill && below(20)) words[4] &= 0xffff;
    if (bits(form.header, 7, 0) == sdma::kPtePde && below(20)) words[9] &= 0xfff;
    // A condition that is never met would be the last packet of its queue.
    if (bits(form.header, 7, 0) == sdma::kPollRegMem && below(20)) words[0] &= ~0x70000000u;
    return words;
  }
  // Mostly with a first word that is valid; rarely one that stops its queue.
  std::vector<uint32_t> compute_packet() {
    struct Form {
      uint8_t opcode;
      uint32_t words;  // of body
      uint32_t selects[3];
      uint32_t highs;
    };
    static constexpr Form kForms[] = {
        {0x10, 3, {0, 1, 2}, 0x0},
        {0x1e, 8, {0x2f, 0x07, 0x19}, 0x4},
        {0x22, 4, {0, 0x1000, 0x2000}, 0x2},
        {0x37, 6, {5 << 8, 0, 1 << 16 | 2 << 8}, 0x4},
        {0x3c, 6, {1 << 4, 0, 1 << 4}, 0x4},
        {0x3f, 3, {kFillers, kFillers, kFillers}, 0x0},
        {0x40, 5, {1 << 16 | 5 << 8 | 1, 5 << 8 | 9, 5 << 8}, 0x14},
        {0x45, 8, {1 << 4, 1 << 8, 3}, 0x44},
        {0x49, 7, {0, 0x1000, 0x2000}, 0x8},
        {0x50, 6, {0, 2u << 29, 3u << 29 | 3 << 20}, 0x14},
        {0x76, 2, {0, 1, 2}, 0x0},
        {0x79, 4, {0, 1, 2}, 0x0},
        {0x93, 8, {1 << 4, 0, 1 << 4}, 0x4},
    };
    static constexpr uint8_t kEnding[] = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0x15, 0xff};
    const bool odd = below(100) == 0;
    const Form& form = kForms[below(std::size(kForms))];
    std::vector<uint32_t> body = {odd ? word() : form.selects[below(3)]};
    while (body.size() < form.words + (odd ? below(4) : 0)) body.push_back(operand());
    clear(body, form.highs);
    if (!odd && form.opcode == 0x49) body[1] = below(5) << 29 | below(4) << 24;
    if (!odd && form.opcode == 0x50) body[5] &= 0x03ffffff;
    if (!odd && form.opcode == 0x3f) body = {kFillers, 0, below(64)};
    const bool ends = below(200) == 0;
    auto words = pm4_packet(ends ? kEnding[below(std::size(kEnding))] : form.opcode, body);
    if (below(200) == 0) words[0] = word();
    return words;
  }
  // Mostly barriers without signals to wait for: the others stop or block their queue.
  std::vector<uint32_t> aql_packet() {
    const uint32_t kind = below(100);
    const uint32_t type = kind < 60 ? aql::kBarrierAnd : kind < 80 ? aql::kBarrierOr : 0;
    std::vector<uint32_t> words = {kind == 99 ? below(7) | below(3) << 16 : type | 1 << 16};
    while (words.size() < 16) words.push_back(below(1000) || kind == 99 ? 0 : operand());
    if (type == aql::kVendor) words[1] = 3u << 30 | 2 << 16 | 0x3f << 8;
    if (type == aql::kVendor && kind < 99) words[2] = kFillers;
    if (type == aql::kVendor) words[4] = below(64);
    words[14] = below(2) ? operand() : 0;
    words[15] = below(200) ? 0 : word();
    return words;
  }

  // Packets without effect for the buffers that are called. A copy ends at the hole before them, so
  // they stay what they are: SDMA has no buffers within buffers.
  static constexpr uint32_t kFillers = FakeMemory::kSize - FakeMemory::kPage;
  static constexpr uint32_t kHole = kFillers - FakeMemory::kPage;
  static void put_fillers(FakeGpu& gpu, const TestQueue& queue) {
    gpu.memory.punch_hole(queue.base, kHole / FakeMemory::kPage);
    gpu.memory.put_words(queue.base, kFillers, std::vector<uint32_t>(64, 0x80000000));
  }

 private:
  std::mt19937 random_;
};

std::vector<uint32_t> packet_for(Garbage& garbage, TestQueue::Kind kind) {
  switch (kind) {
    case TestQueue::kSdma:
      return garbage.sdma_packet();
    case TestQueue::kPm4:
      return garbage.compute_packet();
    default:
      return garbage.aql_packet();
  }
}

// An unused queue, without the pointers or the saved place of the previous one.
void clear_mqd(FakeGpu& gpu, const TestQueue& queue) {
  gpu.memory.put_words(0, queue.mqd, std::vector<uint32_t>(mqd::kDwords));
}

// As long as the queue reports another read pointer now and then.
void wait_for_progress(FakeGpu& gpu, const TestQueue& queue) {
  uint64_t before = 0;
  do {
    before = gpu.rptr(queue);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  } while (gpu.rptr(queue) != before);
}

void fuzz(TestQueue::Kind kind, uint32_t test, unsigned least_percent, const Asic& asic = mi210()) {
  constexpr unsigned kRounds = 300, kPackets = 50;
  uint64_t submitted = 0, read = 0;
  Garbage garbage(test);
  FakeGpu gpu(asic);
  gpu.start_hiq();
  for (unsigned round = 0; round < kRounds; ++round) {
    TestQueue queue = gpu.make(kind, 1, 0, garbage.below(4));
    clear_mqd(gpu, queue);
    queue = gpu.make(kind, 1, 0, queue.engine);
    gpu.memory.put<uint64_t>(queue.base, queue.wptr(), 0);
    Garbage::put_fillers(gpu, queue);
    gpu.run({&queue});
    std::vector<uint32_t> words;
    for (unsigned i = 0; i < kPackets; ++i) words = words + packet_for(garbage, kind);
    gpu.submit(queue, words);
    // Until most queues are done, and some are in the middle.
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(gpu.query_fence()) << "round " << round;
    wait_for_progress(gpu, queue);
    ASSERT_TRUE(gpu.preempt()) << "round " << round;
    const unsigned saved = kind == TestQueue::kSdma ? sdma_mqd::kRbRptr : mqd::kPqRptr;
    read += gpu.memory.get<uint32_t>(0, queue.mqd + saved * 4) / (kind == TestQueue::kSdma ? 4 : 1);
    submitted += words.size();
  }
  // Most of the ring must have been executed: a queue that stops at its first packet tests nothing.
  EXPECT_GT(read, submitted * least_percent / 100) << submitted << " doublewords in all";
}

// On a chip whose preemptions complete although a packet is truncated.
TEST(FuzzTest, GarbageOnAnSdmaQueue) { fuzz(TestQueue::kSdma, 1, 20, mi300x_small()); }
TEST(FuzzTest, GarbageOnAPm4Queue) { fuzz(TestQueue::kPm4, 2, 20); }
TEST(FuzzTest, GarbageOnAnAqlQueue) { fuzz(TestQueue::kAql, 3, 20); }

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
      gpu.memory.put<uint32_t>(0, queue.mqd + kSdmaMqd9.midcmd_cntl * 4, sdma_mqd::kDataValid);
      gpu.memory.put<uint32_t>(0, queue.mqd + kSdmaMqd9.ib_cntl * 4, sdma_mqd::kIbEnable);
      gpu.memory.put<uint32_t>(0, queue.mqd + mi210().compute_mqd.reserved * 4, SavedPlace::kMagic);
    }
    gpu.run({&queue});
    gpu.ring(queue);
    ASSERT_TRUE(gpu.preempt()) << "round " << round;
  }
}

TEST(FuzzTest, GarbageOnTheKernelsOwnQueues) {
  Garbage garbage(5);
  for (unsigned round = 0; round < 70; ++round) {
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
