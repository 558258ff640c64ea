// SPDX-License-Identifier: GPL-2.0
// One dispatch on the two XCCs of a partition, each with an MQD, a control stack and a save area.
#include <gmock/gmock.h>

#include <algorithm>

#include "engines/launcher.h"
#include "regs/partitions.h"
#include "shader/kernel_fixture.h"

namespace gpu::test {
namespace {

constexpr uint32_t kGroup = 256, kGroups = 6;

class XccKernels : public KernelTest {
 protected:
  static constexpr uint64_t kStride = 0x4000;
  static constexpr uint64_t kStop = 0x6000, kRounds = 0x6100;
  static constexpr uint32_t kAreaBytes = 0x300000;

  explicit XccKernels(const std::string& object = "basic.co") : KernelTest(object, mi300x_small()) {
    give_trap_handler();
  }

  // As KFD lets both XCCs run a queue: two MQDs, and two save areas in a row.
  void share(std::array<uint32_t, 2> turns = {0, 1}) {
    gpu_.preempt();
    for (uint32_t xcc = 0; xcc < 2; ++xcc)
      gpu_.registers.write(xcc * kInstanceStride + Partition::kControl, 2u << 3 | xcc);
    gpu_.give_save_area(queue_, kSaveArea, kAreaBytes);
    put_word(0, mqd::kStride, kStride);
    for (unsigned word = 0; word < mqd::kDwords; ++word) put_word(1, word, mqd_word(word));
    put_word(1, mqd::kSaveAreaBase, low32(kSaveArea + kAreaBytes));
    for (unsigned xcc = 0; xcc < 2; ++xcc) put_word(xcc, mqd::kLogicXcc, turns[xcc]);
    map();
  }
  uint32_t word_of(unsigned xcc, unsigned word) {
    return gpu_.memory.get<uint32_t>(0, queue_.mqd + xcc * kStride + uint64_t{word} * 4);
  }
  void put_word(unsigned xcc, unsigned word, uint32_t value) {
    gpu_.memory.put<uint32_t>(0, queue_.mqd + xcc * kStride + uint64_t{word} * 4, value);
  }
  uint32_t state_of(unsigned xcc) {
    return word_of(xcc, mqd::kPersistentState) & persistent::kState;
  }
  uint32_t saved_bytes(unsigned xcc) {
    return word_of(xcc, mqd::kWaveOffset) - word_of(xcc, mqd::kStackSize);
  }

  void start_churning() {
    std::vector<uint32_t> data(size_t{kGroups} * kGroup);
    for (uint32_t i = 0; i < data.size(); ++i) data[i] = i * 2654435761u;
    start_ = data;
    put_all(kData, data);
    put<uint32_t>(kStop, 0);
    arguments(kData, kRounds, kStop);
    const uint64_t object = object_of("churn_until");
    submit(
        object,
        {.grid = {kGroups * kGroup, 1, 1}, .group = {kGroup, 1, 1}, .lds = get<uint32_t>(object)});
  }
  bool churns(uint32_t group) {
    const uint64_t at = kData + uint64_t{group} * kGroup * 4;
    return FakeGpu::eventually([&] { return get<uint32_t>(at) != start_[size_t{group} * kGroup]; });
  }
  bool all_churn() {
    for (uint32_t group = 0; group < kGroups; ++group)
      if (!churns(group)) return false;
    return true;
  }
  std::vector<uint32_t> expected() {
    std::vector<uint32_t> data = start_;
    for (uint32_t group = 0; group < kGroups; ++group) {
      uint32_t* const row = &data[size_t{group} * kGroup];
      for (uint32_t round = 0; round < get<uint32_t>(kRounds + uint64_t{4} * group); ++round) {
        const uint32_t first = row[0];
        for (uint32_t i = 0; i < kGroup; ++i)
          row[i] = (i + 1 < kGroup ? row[i + 1] : first) * 1664525u + 1013904223u + round;
      }
    }
    return data;
  }

  std::vector<uint32_t> start_;
};

class XccRegisters942 : public XccKernels {
 protected:
  XccRegisters942() : XccKernels("registers.co") {}
  std::vector<uint32_t> xccs_of_groups() {
    put_all(kData, std::vector<uint32_t>(kGroups, ~0u));
    arguments(kData);
    EXPECT_TRUE(runs("where", {.grid = {kGroups * 64, 1, 1}, .group = {64, 1, 1}}));
    return get_all<uint32_t>(kData, kGroups);
  }
};

TEST_F(XccRegisters942, EachXccHasItsTurnOfTheWorkGroups) {
  EXPECT_EQ(xccs_of_groups(), (std::vector<uint32_t>{0, 0, 0, 0, 0, 0})) << "alone";
  share();
  EXPECT_EQ(xccs_of_groups(), (std::vector<uint32_t>{0, 1, 0, 1, 0, 1}));
  share({1, 0});
  EXPECT_EQ(xccs_of_groups(), (std::vector<uint32_t>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(gpu_.reports(), std::vector<std::string>{});
}

TEST_F(XccKernels, WavesAreSavedInTheAreaOfTheirXccAndContinueThere) {
  share();
  start_churning();
  ASSERT_TRUE(all_churn());
  for (unsigned turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(gpu_.preempt());
    for (unsigned xcc = 0; xcc < 2; ++xcc) {
      EXPECT_EQ(state_of(xcc) & ~persistent::kRestoreActive,
                persistent::kDispActive | persistent::kRelaunchWaves);
      EXPECT_GT(saved_bytes(xcc), 0u);
      EXPECT_LT(word_of(xcc, mqd::kStackOffset), word_of(xcc, mqd::kStackSize));
      // The trap handler of another mapping writes the area again.
      const uint64_t area = kSaveArea + uint64_t{xcc} * kAreaBytes + FakeGpu::kStackBytes;
      const auto saved = get_all<uint32_t>(area, saved_bytes(xcc) / 4);
      EXPECT_TRUE(std::ranges::any_of(saved, [](uint32_t word) { return word != 0; }));
    }
    map();
  }
  put<uint32_t>(kStop, 1);
  ASSERT_TRUE(completes());
  EXPECT_EQ(get_all<uint32_t>(kData, size_t{kGroups} * kGroup), expected());
  ASSERT_TRUE(gpu_.preempt());
  for (unsigned xcc = 0; xcc < 2; ++xcc) EXPECT_EQ(state_of(xcc), 0u);
  EXPECT_EQ(gpu_.reports(), std::vector<std::string>{});
}

// The device libraries use no GWS on gfx942.
class XccGrid : public XccKernels {
 protected:
  static constexpr uint64_t kCounter = 0x6200;
  static constexpr uint32_t kItems = kGroups * kGroup, kTimes = 400;

  XccGrid() : XccKernels("grid.co") {}
  uint32_t barriers() { return get<uint32_t>(kCounter) >> 16; }
};

TEST_F(XccGrid, GroupsOfAllXccsMeetInMemoryAlsoWhenTheirWavesAreSaved) {
  std::vector<uint32_t> from(kItems), to(kItems);
  for (uint32_t i = 0; i < kItems; ++i) from[i] = i * 2654435761u;
  put_all(kData, from);
  put<uint32_t>(kCounter, 0);
  share();
  arguments(kData, kCounter, kGroups, kTimes);
  submit(object_of("meet_in_memory"), {.grid = {kItems, 1, 1}, .group = {kGroup, 1, 1}});
  for (uint32_t turn = 0; turn < 3; ++turn) {
    const uint32_t before = barriers();
    ASSERT_TRUE(FakeGpu::eventually([&] { return barriers() > before; })) << turn;
    ASSERT_TRUE(gpu_.preempt());
    for (unsigned xcc = 0; xcc < 2; ++xcc) EXPECT_GT(saved_bytes(xcc), 0u) << turn;
    map();
  }
  ASSERT_TRUE(completes());
  EXPECT_EQ(barriers(), kTimes);
  for (uint32_t round = 0; round < kTimes; ++round) {
    for (uint32_t i = 0; i < kItems; ++i)
      to[i] = from[(i + kGroup) % kItems] * 1664525u + 1013904223u + round;
    from.swap(to);
  }
  EXPECT_EQ(get_all<uint32_t>(kData, kItems), from);
  EXPECT_EQ(gpu_.reports(), std::vector<std::string>{});
}

// ROCr 6.4 writes the bytes of an XCC's scratch behind its location, ROCr 7.2 writes 0. The GPU
// takes both from COMPUTE_TMPRING_SIZE: private memory of waves on two XCCs does not overlap.
class XccScratch : public XccKernels, public testing::WithParamInterface<bool> {
 protected:
  static constexpr uint32_t kLaneBytes = 128, kWaves = 32, kCount = 4096, kTimes = 200;
  static constexpr uint64_t kXccBytes = uint64_t{kLaneBytes} * 64 * kWaves;
};
INSTANTIATE_TEST_SUITE_P(Rocr, XccScratch, testing::Bool());

TEST_P(XccScratch, OfTwoXccsDoesNotOverlap) {
  constexpr uint64_t kAfterLocation = aql::kScratchLocation + 8;
  share();
  give_scratch(kLaneBytes, kWaves);
  put<uint64_t>(queue_.rptr + kAfterLocation, GetParam() ? kXccBytes : 0);
  std::vector<uint32_t> data(kCount);
  for (uint32_t i = 0; i < kCount; ++i) data[i] = i * 2654435761u % 100000;
  put_all(kData, data);
  put_all(kScratch, std::vector<uint32_t>(2 * kXccBytes / 4, 0));
  arguments(kData, kTimes);
  ASSERT_TRUE(runs("private_memory", {.grid = {kCount, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<uint32_t>(kData, kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < kTimes; ++k) sum += (data[i] * ((data[i] + k * 7) % 24 + 1)) ^ k;
    ASSERT_EQ(out[i], sum) << i;
  }
  // Each XCC has its half, and none reaches behind the end.
  const auto written = [&](uint64_t at) {
    const auto words = get_all<uint32_t>(at, kXccBytes / 4);
    return std::ranges::any_of(words, [](uint32_t word) { return word != 0; });
  };
  EXPECT_TRUE(written(kScratch));
  EXPECT_TRUE(written(kScratch + kXccBytes));
  EXPECT_FALSE(written(kScratch + 2 * kXccBytes));
  EXPECT_EQ(gpu_.reports(), std::vector<std::string>{});
}

// A driver that restores only the MQD of the first XCC loses the waves of the other.
TEST_F(XccKernels, TheWavesOfAnXccNeedItsOwnMqd) {
  share();
  start_churning();
  ASSERT_TRUE(all_churn());
  ASSERT_TRUE(gpu_.preempt());
  put_word(1, mqd::kPersistentState, word_of(1, mqd::kPersistentState) & ~persistent::kState);
  put_all(kRounds, std::vector<uint32_t>(kGroups, 0));
  map();
  put<uint32_t>(kStop, 1);
  ASSERT_TRUE(completes());
  for (uint32_t group = 0; group < kGroups; ++group)
    EXPECT_EQ(get<uint32_t>(kRounds + uint64_t{4} * group) > 0, group % 2 == 0) << group;
}

TEST_F(XccKernels, WavesWhoseRelaunchNothingAsksForAreReported) {
  share();
  start_churning();
  ASSERT_TRUE(all_churn());
  ASSERT_TRUE(gpu_.preempt());
  put_word(0, mqd::kPersistentState,
           word_of(0, mqd::kPersistentState) & ~persistent::kRelaunchWaves);
  map();
  put<uint32_t>(kStop, 1);
  completes(1);
  EXPECT_THAT(
      gpu_.reports(),
      testing::ElementsAre(testing::HasSubstr("saved waves of XCC 0: the control stack has some")));
}

TEST_F(XccKernels, AnXccThatRestartsAtAWorkGroupOfAnotherIsReported) {
  share();
  start_churning();
  ASSERT_TRUE(all_churn());
  ASSERT_TRUE(gpu_.preempt());
  put_word(1, mqd::kCompute + ComputeRegisters::kRestartX, 2);
  put_word(1, mqd::kCompute + ComputeRegisters::kRestartX + 2, 0);
  map();
  EXPECT_FALSE(gpu_.reports().empty());
}

}  // namespace
}  // namespace gpu::test
