// SPDX-License-Identifier: GPL-2.0
#include "topology/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace amdgpu_criu::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

Gpu gpu(uint32_t id, uint32_t minor, uint64_t hive = 0) {
  Gpu result;
  result.gpu_id = id;
  result.render_minor = minor;
  result.pci_address = formatted("0000:{:02x}:00.0", minor - 125);
  result.properties = {{"gfx_target_version", 90010}, {"simd_count", 32},
                       {"vram_size", 1ull << 30},     {"fw_version", 70},
                       {"num_sdma_engines", 2},       {"hive_id", hive}};
  return result;
}

std::string refusal(std::vector<Gpu> sources, std::vector<Gpu> targets,
                    std::vector<Wish> wishes = {}) {
  auto result = plan(sources, targets, wishes);
  return result.ok() ? "accepted" : result.error().message();
}

TEST(Planner, PrefersTheSameGpuId) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(2, 128), gpu(1, 129)};
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 1), Pair(2, 2)));
}

TEST(Planner, FallsBackToPciAddressThenToAnyThatFits) {
  std::vector sources{gpu(1, 129)};
  std::vector targets{gpu(8, 128), gpu(9, 129)};
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 9)));
  EXPECT_THAT(*plan(sources, std::vector{gpu(8, 140)}), UnorderedElementsAre(Pair(1, 8)));
}

// A GPU may be replaced by one with the same gpu_id and address.
TEST(Planner, PrefersTheSameCusInEachShaderArray) {
  std::vector sources{gpu(1, 128)};
  std::vector targets{gpu(1, 128), gpu(9, 129), gpu(10, 130)};
  sources[0].properties[kCuLayout] = targets[2].properties[kCuLayout] = 43;
  targets[0].properties[kCuLayout] = targets[1].properties[kCuLayout] = 34;
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 10)));
  EXPECT_THAT(*plan(sources, std::span(targets).first(2)), UnorderedElementsAre(Pair(1, 1)))
      << "only preferred";
  sources[0].properties.erase(kCuLayout);
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 1))) << "not known";
}

class PlannerOfReplicas : public testing::Test {
 protected:
  PlannerOfReplicas() { targets_[1].properties["vram_size"] = 2ull << 30; }
  Result<Assignment> plan_one(const std::vector<Wish>& wishes = {}) {
    return plan(sources_, targets_, wishes, {}, room_);
  }

  std::vector<Gpu> sources_{gpu(1, 128)};
  std::vector<Gpu> targets_{gpu(1, 128), gpu(9, 129)};
  Room room_{{{1, 300u << 20}},
             {{1, 900u << 20}, {9, 1900u << 20}},
             {{1, 900u << 20}, {9, 1900u << 20}},
             false};
};

TEST_F(PlannerOfReplicas, FillTheirOwnGpuFirst) {
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 1)));
  room_.free[1] = 300u << 20;
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 1)));
  room_.free[1]--;
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 9)));
}

TEST_F(PlannerOfReplicas, SpreadByThePartThatIsFree) {
  room_.spread = true;
  std::string order;
  while (true) {
    const auto placed = plan_one();
    if (!placed.ok()) break;
    order += formatted("{}", placed->at(1));
    room_.free[placed->at(1)] -= room_.needed[1];
    room_.unused[placed->at(1)] -= room_.needed[1];
  }
  EXPECT_EQ(order, "919919919");
}

TEST_F(PlannerOfReplicas, AreNotHeldOnAGpuByAnotherOneThatNeedsLess) {
  sources_ = {gpu(1, 128), gpu(9, 129)};
  sources_[1].properties["vram_size"] = targets_[0].properties["vram_size"] = 2ull << 30;
  room_ = {{{1, 1u << 20}, {9, 300u << 20}}, {}, {{1, 1900u << 20}, {9, 1600u << 20}}, true};
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 9), Pair(9, 1)));
}

// Render nodes have filled the larger GPU, whose memory the kernel would move away.
TEST_F(PlannerOfReplicas, PreferTheGpuThatNobodyUses) {
  room_.spread = true;
  room_.unused[9] = 100u << 20;
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 1)));
  room_.free[1] = 0;
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 9)));
}

TEST_F(PlannerOfReplicas, AreRefusedByNameWhereThereIsNoRoom) {
  room_.free = {{1, 10u << 20}, {9, 299u << 20}};
  const std::string text = plan_one().error().message();
  EXPECT_THAT(text, HasSubstr("renderD128): 301 MiB of VRAM are needed, 10 MiB are free"));
  EXPECT_THAT(text, HasSubstr("renderD129): 301 MiB of VRAM are needed, 299 MiB are free"));
  const auto wished = plan_one(*parse_map("0x1=0x9"));
  EXPECT_THAT(wished.error().message(), HasSubstr("does not fit: 301 MiB of VRAM are needed"));
}

TEST_F(PlannerOfReplicas, AreNotRefusedIfTheFreeMemoryIsUnknown) {
  room_.free = {};
  EXPECT_THAT(*plan_one(), UnorderedElementsAre(Pair(1, 1)));
}

// What the sources 1, 2, ... get of these targets, if no process uses those of `unused`.
Assignment plan_of(const std::vector<Gpu>& sources, const std::vector<Gpu>& targets,
                   const std::set<uint32_t>& unused) {
  auto result = plan(sources, targets, {}, {}, {}, unused);
  EXPECT_TRUE(result.ok()) << result.error().message();
  return result.ok() ? *result : Assignment();
}

TEST(PlannerOfUnusedGpus, GivesThemWhatIsLeft) {
  const std::vector sources{gpu(1, 128), gpu(2, 129)};
  EXPECT_THAT(plan_of(sources, sources, {1}), UnorderedElementsAre(Pair(1, 1), Pair(2, 2)));
  // Both would prefer the GPU with their own address.
  const std::vector targets{gpu(8, 129), gpu(9, 128)};
  EXPECT_THAT(plan_of(sources, targets, {1}), UnorderedElementsAre(Pair(1, 9), Pair(2, 8)));
}

TEST(PlannerOfUnusedGpus, LeavesThemOutWhereThereAreTooFew) {
  const std::vector sources{gpu(1, 128), gpu(2, 129)};
  EXPECT_THAT(plan_of(sources, {gpu(1, 128)}, {1}), UnorderedElementsAre(Pair(2, 1)));
  EXPECT_THAT(plan_of(sources, {}, {1, 2}), IsEmpty());
}

TEST(PlannerOfUnusedGpus, LeavesThemOutWhereNoneFits) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  sources[0].properties["simd_count"] = 64;
  EXPECT_THAT(plan_of(sources, {gpu(1, 128), gpu(9, 129)}, {1}), UnorderedElementsAre(Pair(2, 9)));
}

// The used ones decide where the hive is.
TEST(PlannerOfUnusedGpus, KeepsTheirGroupsOnlyIfPossible) {
  const std::vector sources{gpu(1, 128, 7), gpu(2, 129, 7), gpu(3, 130, 7)};
  const std::vector targets{gpu(8, 140, 5), gpu(9, 141, 5), gpu(10, 142, 6)};
  EXPECT_THAT(plan_of(sources, targets, {1}), UnorderedElementsAre(Pair(2, 8), Pair(3, 9)));
}

TEST(PlannerOfUnusedGpus, RefusalsNameOnlyUsedOnes) {
  const std::vector sources{gpu(1, 128), gpu(2, 129), gpu(3, 130)};
  const auto result = plan(sources, std::vector{gpu(1, 128)}, {}, {}, {}, {1});
  EXPECT_THAT(result.error().message(), HasSubstr("need 2 GPUs, this machine has 1"));
}

TEST(PlannerOfUnusedGpus, FollowsAWishForThem) {
  const std::vector sources{gpu(1, 128), gpu(2, 129)};
  const std::vector targets{gpu(1, 128), gpu(2, 129)};
  const auto with_wish = [&](const char* map) {
    return plan(sources, targets, *parse_map(map), {}, {}, {1});
  };
  EXPECT_THAT(*with_wish("1=2"), UnorderedElementsAre(Pair(1, 2), Pair(2, 1)));
  EXPECT_THAT(with_wish("1=5").error().message(), HasSubstr("not on this machine"));
}

TEST(Planner, NoSourcesNeedNoTargets) { EXPECT_TRUE(plan({}, {})->empty()); }

TEST(Planner, BacktracksWhenTheFirstChoiceLeavesNoneForALaterGpu) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(8, 130), gpu(9, 131)};
  sources[1].properties["vram_size"] = 2ull << 30;
  targets[0].properties["vram_size"] = 2ull << 30;
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 9), Pair(2, 8)));
}

TEST(Planner, RefusalNamesPropertyAndBothValues) {
  std::vector targets{gpu(8, 128)};
  targets[0].properties["simd_count"] = 64;
  const std::string text = refusal({gpu(1, 128)}, targets);
  EXPECT_THAT(text, HasSubstr("simd_count was 0x20, is 0x40"));
  EXPECT_THAT(text, HasSubstr("GPU 0x1"));
  EXPECT_THAT(text, HasSubstr("GPU 0x8"));
}

TEST(Planner, AcceptsNewerFirmwareAndRefusesOlder) {
  std::vector targets{gpu(8, 128)};
  targets[0].properties["fw_version"] = 71;
  EXPECT_EQ(refusal({gpu(1, 128)}, targets), "accepted");
  targets[0].properties["fw_version"] = 69;
  EXPECT_THAT(refusal({gpu(1, 128)}, targets), HasSubstr("fw_version was 0x46, is only 0x45"));
}

TEST(Planner, RefusesTooFewGpus) {
  EXPECT_THAT(refusal({gpu(1, 128), gpu(2, 129)}, {gpu(1, 128)}),
              HasSubstr("need 2 GPUs, this machine has 1"));
}

TEST(Planner, RefusesWhenTwoNeedTheSameOne) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(8, 130), gpu(9, 131)};
  targets[1].properties["vram_size"] = 1;
  EXPECT_THAT(refusal(sources, targets), HasSubstr("two need the same one"));
}

TEST(Planner, KeepsAHiveOfFourTogetherAmongTwoHives) {
  std::vector<Gpu> sources, targets;
  for (uint32_t i = 0; i < 4; i++) sources.push_back(gpu(1 + i, 128 + i, 7));
  for (uint32_t i = 0; i < 8; i++) targets.push_back(gpu(21 + i, 140 + i, i % 2 ? 5 : 6));
  // One GPU of hive 6 does not fit, so only hive 5 has four.
  targets[0].properties["vram_size"] = 1;
  auto result = plan(sources, targets);
  ASSERT_TRUE(result.ok());
  for (const auto& [source, target] : *result) EXPECT_EQ((target - 21) % 2, 1u);
}

TEST(Planner, RefusesToSplitAHive) {
  std::vector sources{gpu(1, 128, 7), gpu(2, 129, 7)};
  std::vector targets{gpu(8, 130, 5), gpu(9, 131, 6)};
  EXPECT_THAT(refusal(sources, targets),
              AllOf(HasSubstr("had hive_id 0x7 in common"), HasSubstr("has 0x5"),
                    HasSubstr("has 0x6"), HasSubstr("amdgpu.ignore=hive_id allows it")));
  EXPECT_TRUE(plan(sources, targets, {}, Ignored{"hive_id"}).ok());
}

TEST(Planner, GpusOutsideOfHivesMayGoAnywhere) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  EXPECT_EQ(refusal(sources, {gpu(8, 130, 5), gpu(9, 131, 6)}), "accepted");
}

TEST(Planner, KeepsNumaNeighboursTogether) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(8, 130), gpu(9, 131), gpu(10, 132)};
  for (Gpu& one : sources) one.properties["numa_node"] = 0;
  for (size_t i = 0; i < targets.size(); i++) targets[i].properties["numa_node"] = i != 0;
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 9), Pair(2, 10)));
  targets.pop_back();
  EXPECT_THAT(refusal(sources, targets), HasSubstr("amdgpu.ignore=numa_node allows it"));
  EXPECT_TRUE(plan(sources, targets, {}, Ignored{"numa_node"}).ok());
}

TEST(Planner, KeepsDirectLinks) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(8, 130), gpu(9, 131), gpu(10, 132)};
  sources[0].links = {{2, 2}};
  sources[1].links = {{1, 2}};
  targets[0].links = {{10, 2}};
  targets[2].links = {{8, 2}};
  EXPECT_THAT(*plan(sources, targets), UnorderedElementsAre(Pair(1, 8), Pair(2, 10)));
  targets.pop_back();
  targets[0].links.clear();
  EXPECT_THAT(refusal(sources, targets), HasSubstr("had a link"));
  EXPECT_TRUE(plan(sources, targets, {}, Ignored{"links"}).ok());
}

TEST(Planner, RefusalsNameTheOptionThatAllowsThem) {
  std::vector targets{gpu(8, 128)};
  targets[0].properties["vram_size"] = 1;
  EXPECT_THAT(refusal({gpu(1, 128)}, targets), HasSubstr("amdgpu.ignore=vram_size allows it"));
  EXPECT_TRUE(plan(std::vector{gpu(1, 128)}, targets, {}, Ignored{"vram_size"}).ok());
  targets[0].properties["simd_count"] = 64;
  EXPECT_THAT(refusal({gpu(1, 128)}, targets), Not(HasSubstr("amdgpu.ignore")));
}

// Every GPU of a hive linked to every other.
std::vector<Gpu> hive_of(uint32_t size, uint32_t first_id, uint64_t hive) {
  std::vector<Gpu> result;
  for (uint32_t i = 0; i < size; i++) {
    result.push_back(gpu(first_id + i, 128 + (first_id + i) % 64, hive));
    result.back().properties["numa_node"] = i / (size / 2);
    for (uint32_t other = 0; other < size; other++)
      if (other != i) result.back().links[first_id + other] = 11;
  }
  return result;
}

TEST(Planner, PlacesAHiveOfEightOnTheCompleteOneOfTwo) {
  const auto sources = hive_of(8, 1, 7);
  auto targets = hive_of(8, 101, 5);
  targets[7].properties["fw_version"] = 1;
  for (Gpu& one : hive_of(8, 201, 6)) targets.push_back(one);
  auto result = plan(sources, targets);
  ASSERT_TRUE(result.ok()) << result.error().message();
  for (const auto& [source, target] : *result) EXPECT_GE(target, 201u);
}

TEST(Planner, PlacesFourOfAHiveOfEight) {
  auto sources = hive_of(8, 1, 7);
  sources.resize(4);
  EXPECT_TRUE(plan(sources, hive_of(8, 101, 5)).ok());
}

TEST(Planner, RefusesAHiveOfEightWhereOnlySevenFitAtOnce) {
  auto targets = hive_of(8, 101, 5);
  targets[3].properties["simd_count"] = 1;
  targets.push_back(gpu(300, 150, 6));
  EXPECT_THAT(refusal(hive_of(8, 1, 7), targets), HasSubstr("not together"));
}

// 8 GPUs in partition mode CPX are 64 GPUs for KFD.
TEST(Planner, PlacesSixtyFourPartitions) {
  EXPECT_TRUE(plan(hive_of(64, 1, 7), hive_of(64, 1001, 5)).ok());
}

TEST(Planner, FollowsTheUsersMapByAnyName) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(1, 128), gpu(2, 129)};
  auto wishes = *parse_map("0x1=0000:04:00.0,renderD129=1");
  EXPECT_THAT(*plan(sources, targets, wishes), UnorderedElementsAre(Pair(1, 2), Pair(2, 1)));
}

TEST(Planner, FollowsTheUsersMapByUuidAndByIndex) {
  std::vector sources{gpu(1, 129), gpu(2, 128)};
  std::vector targets{gpu(8, 128), gpu(9, 129)};
  targets[1].unique_id = 0xabcdef0123456789;
  // Number 0 in the order of render nodes is the second of the list.
  EXPECT_THAT(*plan(sources, targets, *parse_map("#0=GPU-abcdef0123456789")),
              UnorderedElementsAre(Pair(2, 9), Pair(1, 8)));
  EXPECT_THAT(refusal(sources, targets, {{"#2", "8"}}), HasSubstr("not in the images; there: GPU"));
  EXPECT_THAT(refusal(sources, targets, {{"1", "GPU-0"}}), HasSubstr("not on this machine"));
}

TEST(Planner, LeavesARequestedTargetToItsSource) {
  std::vector sources{gpu(1, 128), gpu(2, 129)};
  std::vector targets{gpu(1, 128), gpu(9, 131)};
  auto wishes = *parse_map("2=1");
  EXPECT_THAT(*plan(sources, targets, wishes), UnorderedElementsAre(Pair(1, 9), Pair(2, 1)));
}

TEST(Planner, RefusesImpossibleWishes) {
  std::vector one{gpu(1, 128)};
  EXPECT_THAT(refusal(one, one, {{"5", "1"}}), HasSubstr("5, which is not in the images"));
  EXPECT_THAT(refusal(one, one, {{"1", "5"}}), HasSubstr("5, which is not on this machine"));
  EXPECT_THAT(refusal(one, one, {{"1", "1"}, {"1", "1"}}), HasSubstr("twice"));
  std::vector unfit{gpu(1, 128)};
  unfit[0].properties["simd_count"] = 1;
  EXPECT_THAT(refusal(one, unfit, {{"1", "1"}}), HasSubstr("simd_count was 0x20, is 0x1"));
}

TEST(Planner, RefusesMapsThatAreNotPairs) {
  for (const char* text : {"1", "=1", "1=", "1=2,,3=4", "1=2,", ",", ",1=2"})
    EXPECT_FALSE(parse_map(text).ok()) << text;
  EXPECT_TRUE(parse_map("")->empty());
}

}  // namespace
}  // namespace amdgpu_criu::topology
