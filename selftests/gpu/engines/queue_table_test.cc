// SPDX-License-Identifier: GPL-2.0
// Which queues have a turn, with delays and without.
#include "engines/queue_table.h"

#include <gtest/gtest.h>

#include "engines/fake_gpu.h"
#include "shader/cores.h"

namespace gpu::test {
namespace {

constexpr unsigned kQueues = 6;
constexpr unsigned kRounds = 1000;

// Notes in which rounds it has a turn.
class Turns : public Queue {
 public:
  Turns(Context& context, uint32_t doorbell, const unsigned& round)
      : Queue(context, {.doorbell = doorbell}, kKernelSpace, {}), round_(round) {
    state_ = State::kRunnable;
  }
  bool run(Budget&) override {
    turns_.push_back(round_);
    return true;
  }
  void doorbell(uint64_t, unsigned) override {}
  void save() override {}
  void catch_up() override {}

  const std::vector<unsigned>& turns() const { return turns_; }

 private:
  const unsigned& round_;
  std::vector<unsigned> turns_;
};

class QueueTableTest : public testing::Test {
 protected:
  // The turns of all queues.
  std::vector<std::vector<unsigned>> turns(std::optional<uint32_t> seed) {
    QueueTable table;
    unsigned round = 0;
    std::vector<const Turns*> queues;
    for (unsigned i = 0; i < kQueues; i++) {
      auto queue = std::make_unique<Turns>(context_, i * 8, round);
      queues.push_back(queue.get());
      table.add(std::move(queue));
    }
    if (seed) table.delay(*seed);
    for (; round < kRounds; round++) {
      EXPECT_NE(table.round(), QueueTable::Activity::kIdle) << "the worker would sleep";
    }
    std::vector<std::vector<unsigned>> result;
    for (const Turns* queue : queues) result.push_back(queue->turns());
    return result;
  }

  FakeMemory memory_;
  FakeRegisters registers_;
  FakeInterrupts interrupts_;
  shader::Cores cores_;
  Context context_{mi210(), 0, memory_, registers_, interrupts_, [](const auto&) {}, cores_};
};

TEST_F(QueueTableTest, EachQueueHasATurnInEachRound) {
  for (const auto& queue : turns({})) EXPECT_EQ(queue.size(), kRounds);
}

TEST_F(QueueTableTest, DelaysPauseEachQueueForAShortTime) {
  for (const auto& queue : turns(7)) {
    EXPECT_LT(queue.size(), kRounds * 9 / 10);
    EXPECT_GT(queue.size(), kRounds / 3);
  }
}

TEST_F(QueueTableTest, OneSeedGivesTheSameDelaysAgain) {
  EXPECT_EQ(turns(7), turns(7));
  EXPECT_NE(turns(7), turns(8));
}

}  // namespace
}  // namespace gpu::test
