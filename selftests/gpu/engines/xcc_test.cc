// SPDX-License-Identifier: GPL-2.0
// A chip with several XCCs: the work of each, and the work of the first one for its partition.
#include "engines/xcc_view.h"

#include <gtest/gtest.h>

#include "engines/fake_gpu.h"
#include "regs/partitions.h"

namespace gpu::test {
namespace {

class PlainBlock : public RegisterBlock {
 public:
  std::string_view name() const override { return "plain"; }
  uint32_t read(uint32_t dword) override { return dword; }
  void write(uint32_t dword, uint32_t value) override { written = {dword, value}; }
  std::pair<uint32_t, uint32_t> written;
};

TEST(XccRegisters, OffsetsOfTheGraphicsCoreAreThoseOfTheXcc) {
  FakeRegisters all;
  XccRegisters second(all, 1);
  second.write(0x2022, 1);
  second.write(0xc040, 2);
  second.write(0x9fff, 3);
  EXPECT_EQ(all.read(0x12022), 1u);
  EXPECT_EQ(all.read(0x1c040), 2u);
  EXPECT_EQ(all.read(0x9fff), 3u) << "outside of both windows";
  EXPECT_EQ(all.read(0x2022), 0u);
  EXPECT_EQ(second.read(0xc040), 2u);
}

TEST(XccRegisters, ABlockSeesItsOffsetsInEveryXcc) {
  FakeRegisters all;
  XccRegisters second(all, 1);
  PlainBlock block;
  ASSERT_TRUE(second.claim(block, 0x3245, 0x3246).ok());
  EXPECT_EQ(all.read(0x13246), 0x3246u);
  all.write(0x13245, 7);
  EXPECT_EQ(block.written, std::pair(0x3245u, 7u));
  EXPECT_EQ(all.read(0x3246), 0u);
}

TEST(XccInterrupts, NameTheXccUnlessTheyComeFromAnAid) {
  FakeInterrupts all;
  XccInterrupts third(all, 2);
  third.raise({.client = 0x14, .source = 181});
  third.raise({.client = 8, .source = 224, .from_mmhub = true, .instance = 3});
  EXPECT_EQ(all.all()[0].instance, 2u);
  EXPECT_EQ(all.all()[1].instance, 3u);
}

TEST(Partitions, AnXccIsAloneUntilTheDriverGroupsIt) {
  FakeRegisters all;
  Partitions partitions(8);
  ASSERT_TRUE(partitions.claim(all).ok());
  EXPECT_EQ(all.read(0xe83), 4u << 4) << "CPX";
  EXPECT_EQ(Partition::of(5, 0).first, 5u);
  for (uint32_t xcc = 0; xcc < 8; ++xcc)
    all.write(xcc * kInstanceStride + 0xf828, 4 << 3 | xcc % 4);
  EXPECT_EQ(all.read(0xe83), 1u << 4) << "DPX";
  const Partition second = Partition::of(5, all.read(5 * kInstanceStride + 0xf828));
  EXPECT_EQ(second.first, 4u);
  EXPECT_EQ(second.count, 4u);
  for (uint32_t xcc = 0; xcc < 8; ++xcc) all.write(xcc * kInstanceStride + 0xf828, 8 << 3 | xcc);
  EXPECT_EQ(all.read(0xe83), 0u) << "SPX";
  partitions.reset();
  EXPECT_EQ(all.read(0xe83), 4u << 4);
}

TEST(Partitions, TheMemoryIsInAsManyAsTheChipHas) {
  FakeRegisters one, two;
  Partitions whole(2), halves(2, mi300x_halves().memory_partitions);
  ASSERT_TRUE(whole.claim(one).ok());
  ASSERT_TRUE(halves.claim(two).ok());
  EXPECT_EQ(one.read(0xe84), 1u << 4) << "NPS1";
  EXPECT_EQ(two.read(0xe84), 2u << 4) << "NPS2";
  EXPECT_EQ(two.read(0xe82), 2u);
}

TEST(Partitions, ImpossibleGroupsAreNone) {
  for (const uint32_t control : {2u << 3 | 2, 2u << 3 | 1, 0u << 3 | 1})
    EXPECT_EQ(Partition::of(0, control).count, 1u) << control;
}

// The XCCs of one partition, each with its KIQ; the HIQ is mapped on all of them.
class PartitionTest : public testing::Test {
 protected:
  void group(unsigned count) {
    for (uint32_t xcc = 0; xcc < 2; ++xcc)
      gpu_.registers.write(xcc * kInstanceStride + Partition::kControl, count << 3 | xcc % count);
  }
  // The MQD of the second XCC, as KFD makes it.
  void copy_mqd(const TestQueue& queue) {
    put(queue.mqd, mqd::kStride, kStride);
    for (unsigned word = 0; word < mqd::kDwords; ++word)
      put(queue.mqd + kStride, word, gpu_.memory.get<uint32_t>(0, queue.mqd + 4 * word));
  }
  void put(uint64_t mqd, unsigned word, uint32_t value) {
    gpu_.memory.put<uint32_t>(0, mqd + uint64_t{4} * word, value);
  }

  static constexpr uint32_t kStride = 0x1000;
  FakeGpu gpu_{mi300x_small()};
};

TEST_F(PartitionTest, TheFirstXccSavesIntoTheMqdOfEveryXcc) {
  group(2);
  gpu_.start_hiq();
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  copy_mqd(queue);
  gpu_.run({&queue});
  gpu_.submit(queue, pm4_write(0x8000, {1, 2, 3}));
  ASSERT_TRUE(
      FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(queue.base, 0x8008) == 3; }));
  ASSERT_TRUE(gpu_.preempt());
  for (const uint64_t copy : {queue.mqd, queue.mqd + kStride})
    EXPECT_EQ(gpu_.memory.get<uint64_t>(0, copy + 4 * mqd::kPqWptr), queue.wptr_value) << copy;
  EXPECT_EQ(gpu_.reports(), std::vector<std::string>{});
}

// A driver that restores only the MQD of the first XCC would run some work-groups twice.
TEST_F(PartitionTest, MqdsOfOneQueueThatDoNotFitAreReported) {
  group(2);
  gpu_.start_hiq();
  const auto reports_of = [&](TestQueue::Kind kind, unsigned word, uint32_t value) {
    TestQueue queue = gpu_.make(kind, 1, 0);
    if (kind == TestQueue::kPm4) put(queue.mqd, mqd::kAqlControl, 0);  // of the queue before
    copy_mqd(queue);
    put(queue.mqd + kStride, mqd::kLogicXcc, kind == TestQueue::kAql);
    put(queue.mqd + kStride, word, value);
    const size_t before = gpu_.reports().size();
    gpu_.run({&queue});
    EXPECT_TRUE(gpu_.preempt());
    return gpu_.reports().size() - before;
  };
  EXPECT_EQ(reports_of(TestQueue::kPm4, mqd::kLogicXcc, 0), 0u);
  EXPECT_EQ(reports_of(TestQueue::kAql, mqd::kLogicXcc, 1), 0u);
  EXPECT_EQ(reports_of(TestQueue::kPm4, mqd::kLogicXcc, 1), 1u);
  EXPECT_EQ(reports_of(TestQueue::kAql, mqd::kLogicXcc, 0), 1u) << "twice";
  EXPECT_EQ(reports_of(TestQueue::kAql, mqd::kLogicXcc, 2), 1u) << "out of range";
  EXPECT_EQ(reports_of(TestQueue::kPm4, mqd::kPqRptr, 1), 1u);
  EXPECT_EQ(reports_of(TestQueue::kPm4, mqd::kSaveAreaBase, 1), 1u);
}

TEST_F(PartitionTest, AnXccThatIsAloneSavesIntoOneMqd) {
  group(1);
  gpu_.start_hiq();
  TestQueue queue = gpu_.make(TestQueue::kPm4, 1, 0);
  const uint64_t stride = 0x1000;
  gpu_.memory.put<uint32_t>(0, queue.mqd + 4 * mqd::kStride, stride);
  gpu_.run({&queue});
  gpu_.submit(queue, pm4_write(0x8000, {1}));
  ASSERT_TRUE(
      FakeGpu::eventually([&] { return gpu_.memory.get<uint32_t>(queue.base, 0x8000) == 1; }));
  ASSERT_TRUE(gpu_.preempt());
  EXPECT_EQ(gpu_.memory.get<uint64_t>(0, queue.mqd + 4 * mqd::kPqWptr), queue.wptr_value);
  EXPECT_EQ(gpu_.memory.get<uint64_t>(0, queue.mqd + stride + 4 * mqd::kPqWptr), 0u);
}

}  // namespace
}  // namespace gpu::test
