// SPDX-License-Identifier: GPL-2.0
// Engines whose work has no fence complete it in any order: each has a thread of its own, and
// delays let each of them be late.
#include <gtest/gtest.h>

#include <algorithm>

#include "engines/fake_gpu.h"

namespace gpu::test {
namespace {

constexpr uint32_t kSeeds = 20;
constexpr uint64_t kFrom = 0x800000, kTo = 0x810000, kResult = 0x820000;
constexpr uint64_t kStart = 0x8000, kFence = 0x8040, kDone = 0x8080;
constexpr uint32_t kOld = 0x11111111, kNew = 0x22222222;

std::vector<uint32_t> pm4_wait(uint64_t address) {
  constexpr uint32_t kMemoryEquals = 1u << 4 | 3;
  return pm4_packet(pm4::kWaitRegMem, {kMemoryEquals, low32(address), 0, 1, ~0u, 4});
}

// What a compute queue reads from where an SDMA queue copies to. Both start at the same time.
uint32_t read_of_a_copy(std::optional<uint32_t> seed, bool with_fence) {
  FakeGpu gpu(mi210(), seed);
  gpu.start_hiq();
  // Queues pause by their doorbells: neither together with the other, nor with the HIQ, which has
  // just run.
  TestQueue sdma = gpu.make(TestQueue::kSdma, 1, 1), compute = gpu.make(TestQueue::kPm4, 1, 2);
  gpu.run({&sdma, &compute});
  gpu.memory.put<uint32_t>(sdma.base, kFrom, kNew);
  gpu.memory.put<uint32_t>(sdma.base, kTo, kOld);
  gpu.submit(sdma, sdma_poll(kStart, 1) + sdma_copy(kFrom, kTo, 4) + sdma_fence(kFence, 1));
  gpu.submit(compute,
             pm4_wait(kStart) + (with_fence ? pm4_wait(kFence) : std::vector<uint32_t>()) +
                 pm4_packet(pm4::kCopyData, {5 << 8 | 1, low32(kTo), 0, low32(kResult), 0}) +
                 pm4_write(kDone, {1}));
  gpu.memory.put<uint32_t>(sdma.base, kStart, 1);
  EXPECT_TRUE(
      FakeGpu::eventually([&] { return gpu.memory.get<uint32_t>(compute.base, kDone) == 1; }));
  return gpu.memory.get<uint32_t>(compute.base, kResult);
}

TEST(Fence, AMissingOneIsNoticedWithoutDelays) {
  EXPECT_TRUE(FakeGpu::eventually([] { return read_of_a_copy({}, false) == kOld; }));
}

TEST(Fence, AMissingOneIsNoticedWithDelays) {
  bool noticed = false;
  for (uint32_t seed = 1; seed <= kSeeds && !noticed; ++seed)
    noticed = read_of_a_copy(seed, false) == kOld;
  EXPECT_TRUE(noticed);
}

TEST(Fence, OrdersEnginesInSpiteOfDelays) {
  for (uint32_t seed = 1; seed <= kSeeds; ++seed)
    EXPECT_EQ(read_of_a_copy(seed, true), kNew) << "seed " << seed;
}

}  // namespace
}  // namespace gpu::test
