// SPDX-License-Identifier: GPL-2.0
// Work-groups that wait for each other by GWS, and the compute units that they run on.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "shader/kernel_fixture.h"

namespace gpu::test {
namespace {

class GridKernels : public KernelTest {
 protected:
  GridKernels() : KernelTest("grid.co") {}
  // What meet makes of the numbers, on the CPU.
  static std::vector<uint32_t> met(std::vector<uint32_t> from, uint32_t rounds) {
    std::vector<uint32_t> to(from.size());
    for (uint32_t round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < from.size(); ++i)
        to[i] = from[(i + 256) % from.size()] * 1664525u + 1013904223u + round;
      from.swap(to);
    }
    return from;
  }
  static std::vector<uint32_t> numbers(uint32_t groups) {
    std::vector<uint32_t> values(groups * 256u);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = i * 2654435761u;
    return values;
  }
  void start_meeting(uint32_t groups, uint32_t rounds) {
    put_all(kData, numbers(groups));
    arguments(groups);
    ASSERT_TRUE(runs("grid_init", {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
    arguments(kData, groups, rounds);
    submit(object_of("meet"), {.grid = {groups * 256, 1, 1}, .group = {256, 1, 1}});
  }
  bool pending() { return get<uint64_t>(kSignal + aql::kSignalValue) != 0; }
  std::set<uint32_t> units_of(uint32_t groups) {
    std::set<uint32_t> units;
    for (const uint32_t hw_id : get_all<uint32_t>(kData, groups)) {
      EXPECT_EQ(bits(hw_id, 15, 12), 0u) << "shader engine and array";
      units.insert(bits(hw_id, 11, 8));
    }
    return units;
  }
};

TEST_F(GridKernels, GroupsMeetAsOftenAsRequested) {
  constexpr uint32_t kGroups = 8, kRounds = 25;
  give_gws();
  start_meeting(kGroups, kRounds);
  ASSERT_TRUE(completes());
  EXPECT_EQ(get_all<uint32_t>(kData + kGroups * 1024, kGroups * 256),
            met(numbers(kGroups), kRounds));
  EXPECT_TRUE(gpu_.reports().empty());
}

// The whole GPU: 256 waves.
TEST_F(GridKernels, AsManyGroupsMeetAsTheUnitsHold) {
  give_gws();
  start_meeting(64, 2);
  ASSERT_TRUE(completes());
  EXPECT_EQ(get_all<uint32_t>(kData, 64 * 256), met(numbers(64), 2));
}

TEST_F(GridKernels, WavesThatWaitForOtherGroupsAreSavedAndArriveAgain) {
  constexpr uint32_t kGroups = 8, kRounds = 600;
  give_trap_handler();
  give_gws();
  start_meeting(kGroups, kRounds);
  unsigned with_waves = 0;
  while (pending()) {
    ASSERT_TRUE(gpu_.preempt());
    with_waves += mqd_word(mqd::kWaveOffset) > FakeGpu::kStackBytes;
    map();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_GT(with_waves, 2u);
  EXPECT_EQ(get_all<uint32_t>(kData, kGroups * 256), met(numbers(kGroups), kRounds));
  EXPECT_TRUE(gpu_.reports().empty());
}

// With another counter the groups wait for one that does not exist; the queue can be preempted.
TEST_F(GridKernels, TheCounterIsStateOfTheQueue) {
  constexpr uint32_t kGroups = 4;
  give_trap_handler();
  give_gws();
  start_meeting(kGroups, 3000);
  do {
    map();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(gpu_.preempt());
  } while (mqd_word(mqd::kWaveOffset) == FakeGpu::kStackBytes && pending());
  const uint64_t counters = queue_.mqd + (mi210().compute_mqd.reserved + mqd::kGws) * uint64_t{4};
  const auto counter = gpu_.memory.get<uint8_t>(0, counters);
  EXPECT_EQ(counter, kGroups - 1);
  gpu_.memory.put<uint8_t>(0, counters, kGroups);
  map();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(pending());
  ASSERT_TRUE(gpu_.preempt());
  gpu_.memory.put<uint8_t>(0, counters, counter);
  map();
  EXPECT_TRUE(completes());
}

TEST_F(GridKernels, ASemaphoreLetsAsManyWavesPassAsItsCounterSays) {
  constexpr uint32_t kGroups = 7;
  give_gws();
  put_all<uint32_t>(kData, {0, 0, 0, 0});
  arguments(kData, kGroups);
  ASSERT_TRUE(runs("take_turns", {.grid = {kGroups * 64, 1, 1}, .group = {64, 1, 1}}));
  EXPECT_EQ(get_all<uint32_t>(kData, 4),
            (std::vector<uint32_t>{kGroups - 1, 1, kGroups - 2, kGroups - 1}));
}

TEST_F(GridKernels, AQueueWithoutGwsStops) {
  arguments(uint32_t{4});
  submit(object_of("grid_init"), {.grid = {64, 1, 1}, .group = {64, 1, 1}});
  ASSERT_TRUE(FakeGpu::eventually([&] { return gpu_.reports().size() == 1; }));
  EXPECT_THAT(gpu_.reports()[0], ::testing::HasSubstr("GWS resource 0 is not the queue's"));
  EXPECT_TRUE(pending());
}

TEST_F(GridKernels, WavesOfAGroupRunSideBySideAfterABarrier) {
  constexpr uint32_t kRounds = 50;
  arguments(kData, kRounds);
  ASSERT_TRUE(runs("side_by_side", {.grid = {1024, 1, 1}, .group = {1024, 1, 1}}));
  EXPECT_EQ(get_all<uint32_t>(kData, 1024),
            std::vector<uint32_t>(1024, kRounds * (kRounds + 1) / 2));
}

TEST_F(GridKernels, GroupsRunOnAllUnits) {
  arguments(kData);
  ASSERT_TRUE(runs("where", {.grid = {16 * 64, 1, 1}, .group = {64, 1, 1}}));
  EXPECT_EQ(units_of(16), (std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Two on a unit, both on its first SIMD.
TEST_F(GridKernels, WavesOfOneSimdHaveDifferentIds) {
  arguments(kData);
  ASSERT_TRUE(runs("where", {.grid = {16 * 64, 1, 1}, .group = {64, 1, 1}}));
  std::map<uint32_t, std::set<uint32_t>> ids;
  for (const uint32_t hw_id : get_all<uint32_t>(kData, 16))
    ids[bits(hw_id, 15, 4)].insert(bits(hw_id, 3, 0));
  ASSERT_EQ(ids.size(), 8u);
  for (const auto& [simd, waves] : ids) EXPECT_EQ(waves, (std::set<uint32_t>{0, 1})) << simd;
}

TEST_F(GridKernels, GroupsRunOnUnitsThatTheMaskEnables) {
  arguments(kData);
  for (const uint32_t mask : {0x24u, 0x80u}) {
    gpu_.preempt();
    enable_units(mask);
    map();
    ASSERT_TRUE(runs("where", {.grid = {16 * 64, 1, 1}, .group = {64, 1, 1}}));
    const std::set<uint32_t> wanted =
        mask == 0x24 ? std::set<uint32_t>{2, 5} : std::set<uint32_t>{7};
    EXPECT_EQ(units_of(16), wanted);
  }
}

TEST_F(GridKernels, WithoutAUnitAKernelWaits) {
  gpu_.preempt();
  enable_units(0);
  map();
  arguments(kData);
  submit(object_of("where"), {.grid = {64, 1, 1}, .group = {64, 1, 1}});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(pending());
  give_trap_handler();
  EXPECT_TRUE(pending());
  ASSERT_TRUE(gpu_.preempt());
  enable_units(1);
  map();
  EXPECT_TRUE(completes());
  EXPECT_EQ(units_of(1), std::set<uint32_t>{0});
}

}  // namespace
}  // namespace gpu::test
