// SPDX-License-Identifier: GPL-2.0
// Kernels that a preemption interrupts, by the frames of MES on gfx11, and what gfx11 adds: waves
// that report themselves.
#include "shader/basic_kernels.h"

namespace gpu::test {
namespace {

class PreemptedKernels : public BasicKernels {};

TEST_P(PreemptedKernels, APreemptionSavesWavesAndTheirQueueContinuesThem) {
  constexpr uint32_t kCount = 4096, kRounds = 400;
  give_trap_handler();
  const auto in = random<uint32_t>(kCount, 0, ~0u);
  submit_churn(in, kRounds);
  unsigned with_waves = 0;
  while (get<uint64_t>(kSignal + aql::kSignalValue)) {
    ASSERT_TRUE(gpu_.preempt());
    if (mqd_word(mqd::kWaveOffset) > FakeGpu::kStackBytes) {
      ++with_waves;
      EXPECT_LT(mqd_word(mqd::kStackOffset), FakeGpu::kStackBytes);
    }
    map();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(with_waves, 2u);
  EXPECT_EQ(get_all<uint32_t>(kData, kCount), churned(in, kRounds));
  EXPECT_TRUE(gpu_.reports().empty());
}

TEST_P(PreemptedKernels, SavedWavesKeepTheirPrivateMemory) {
  constexpr uint32_t kCount = 1024, kRounds = 3000;
  give_trap_handler();
  give_scratch(128, 64);
  const auto in = random<uint32_t>(kCount, 0, 100000);
  put_all(kData, in);
  arguments(kData, kRounds);
  const uint64_t object = object_of("private_memory");
  submit(object,
         {.grid = {kCount, 1, 1}, .group = {256, 1, 1}, .private_size = get<uint32_t>(object + 4)});
  unsigned with_waves = 0;
  while (get<uint64_t>(kSignal + aql::kSignalValue)) {
    ASSERT_TRUE(gpu_.preempt());
    with_waves += mqd_word(mqd::kWaveOffset) > FakeGpu::kStackBytes;
    map();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(with_waves, 2u);
  const auto out = get_all<uint32_t>(kData, kCount);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], private_sum(in[i], kRounds)) << i;
}

// A checkpoint must carry these words: without one of them the result is different.
TEST_P(PreemptedKernels, WithoutTheMqdWordsTheResultIsWrong) {
  constexpr uint32_t kCount = 1024, kRounds = 2000;
  give_trap_handler();
  const auto in = random<uint32_t>(kCount, 0, ~0u);
  // On a busy machine nothing of the dispatch may have run yet.
  const auto save_waves = [&] {
    for (int tries = 0; tries < 1000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (!gpu_.preempt()) return false;
      if (mqd_word(mqd::kWaveOffset) > FakeGpu::kStackBytes) return true;
      map();
    }
    return false;
  };
  const auto without = [&](unsigned word, uint32_t lost) {
    submit_churn(in, kRounds);
    EXPECT_TRUE(save_waves());
    if (word) gpu_.memory.put<uint32_t>(0, queue_.mqd + word * uint64_t{4}, lost);
    map();
    EXPECT_TRUE(completes());
    return get_all<uint32_t>(kData, kCount) != churned(in, kRounds);
  };
  EXPECT_FALSE(without(0, 0));
  EXPECT_TRUE(without(mqd::kStackOffset, FakeGpu::kStackBytes));
}

// A queue without a save area: its waves end before the preemption does.
TEST_P(PreemptedKernels, APreemptionWaitsForWavesThatCannotBeSaved) {
  const uint32_t n = 64 * 1024;
  arguments(kData, uint32_t{1}, uint32_t{2});
  submit(object_of("philox"), {.grid = {n, 1, 1}, .group = {256, 1, 1}});
  EXPECT_TRUE(gpu_.preempt());
  const bool before = get<uint64_t>(kSignal + aql::kSignalValue) == 0;
  map();
  ASSERT_TRUE(completes());
  EXPECT_NE(get<uint32_t>(kData + 16 * (n - 1)), 0u);
  EXPECT_TRUE(before || gpu_.rptr(queue_) == 1);
}

INSTANTIATE_TEST_SUITE_P(Gfx9, PreemptedKernels, kMi210, name_of_chip);
INSTANTIATE_TEST_SUITE_P(Gfx11, PreemptedKernels, kNavi31, name_of_chip);

class MesKernels : public BasicKernels {};

// SUSPEND and RESUME of MES, which the driver uses when another queue is bad.
TEST_P(MesKernels, RestWhileAllGangsAreSuspended) {
  constexpr uint32_t kCount = 1024, kRounds = 2000;
  give_trap_handler();
  const auto in = random<uint32_t>(kCount, 0, ~0u);
  submit_churn(in, kRounds);
  unsigned with_waves = 0;
  while (get<uint64_t>(kSignal + aql::kSignalValue)) {
    ASSERT_TRUE(gpu_.mes(mes_frame(6, {{1, 1}}), 7));
    with_waves += mqd_word(mqd::kWaveOffset) > FakeGpu::kStackBytes;
    ASSERT_TRUE(gpu_.mes(mes_frame(7, {{1, 1}}), 4));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GT(with_waves, 0u);
  EXPECT_EQ(get_all<uint32_t>(kData, kCount), churned(in, kRounds));
}

INSTANTIATE_TEST_SUITE_P(Gfx11, MesKernels, kNavi31, name_of_chip);

class AbortingKernels : public KernelTest {
 protected:
  AbortingKernels() : KernelTest("wave32.co", navi31()) {}
};

// Traps are off: the compiler sends the interrupt itself, and s_trap does nothing.
TEST_F(AbortingKernels, ReportThemselvesAndAreKept) {
  give_trap_handler();
  arguments(kData);
  const uint64_t object = object_of("aborts");
  submit(object, {.grid = {32, 1, 1}, .group = {32, 1, 1}});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(ih::kSourceSqMessage) > 0; }));
  EXPECT_EQ(get<uint32_t>(kData), 1u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(gpu_.preempt());
    EXPECT_GT(mqd_word(mqd::kWaveOffset), FakeGpu::kStackBytes);
    map();
  }
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  EXPECT_TRUE(gpu_.reports().empty());
  ASSERT_EQ(gpu_.interrupts.count(ih::kSourceSqMessage), 1u);
  const auto all = gpu_.interrupts.all();
  const auto sent = std::ranges::find(all, ih::kSourceSqMessage, &Interrupt::source);
  constexpr uint32_t kPrivileged = 1 << 26, kAbort = 1 << 10, kFromInstruction = 1 << 6;
  EXPECT_EQ(sent->data[0], kPrivileged | kAbort | (queue_.doorbell >> 3 & 0x3ff));
  EXPECT_EQ(sent->data[1], kFromInstruction);
  EXPECT_EQ(sent->pasid, queue_.pasid);
}

}  // namespace
}  // namespace gpu::test
