// SPDX-License-Identifier: GPL-2.0
// What a thread that runs queues promises to the scheduler in another thread.
#include "engines/queue_runner.h"

#include <gtest/gtest.h>

#include <atomic>

#include "engines/fake_gpu.h"
#include "shader/cores.h"

namespace gpu::test {
namespace {

// Always has work.
class Busy : public Queue {
 public:
  Busy(Context& context, uint32_t doorbell, std::atomic<unsigned>& turns)
      : Queue(context, {.doorbell = doorbell}, kKernelSpace, {}), turns_(turns) {
    state_ = State::kRunnable;
  }
  bool run(Budget&) override {
    running = true;
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    running = false;
    ++turns_;
    return true;
  }
  void doorbell(uint64_t value, unsigned) override { rung = value; }
  void save() override {}
  void catch_up() override {}

  std::atomic<uint64_t> rung = 0;
  std::atomic<bool> slow = false, running = false;

 private:
  std::atomic<unsigned>& turns_;
};

class QueueRunnerTest : public testing::Test {
 protected:
  Busy& add(uint32_t doorbell) {
    const auto paused = runner_.pause();
    auto queue = std::make_unique<Busy>(context_, doorbell, turns_);
    Busy& added = *queue;
    runner_.queues().add(std::move(queue));
    runner_.wake();
    return added;
  }
  bool turns_go_on() {
    const unsigned before = turns_;
    return FakeGpu::eventually([&] { return turns_ > before + 10; });
  }

  FakeMemory memory_;
  FakeRegisters registers_;
  FakeInterrupts interrupts_;
  shader::Cores cores_;
  Context context_{mi210(), 0, memory_, registers_, interrupts_, [](const auto&) {}, cores_};
  std::atomic<unsigned> turns_ = 0;
  QueueRunner runner_;  // last: its thread uses the rest
};

TEST_F(QueueRunnerTest, AQueueThatIsAddedInAPauseRuns) {
  add(8);
  EXPECT_TRUE(turns_go_on());
}

TEST_F(QueueRunnerTest, NothingRunsInAPause) {
  add(8);
  ASSERT_TRUE(turns_go_on());
  {
    const auto paused = runner_.pause();
    const unsigned before = turns_;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(turns_, before);
  }
  EXPECT_TRUE(turns_go_on());
}

// Although its thread needs the queues again at once. This one may be late itself now and then.
TEST_F(QueueRunnerTest, APauseWaitsForTheRoundThatRunsOnly) {
  constexpr unsigned kPauses = 20;
  Busy& queue = add(8);
  queue.slow = true;
  unsigned waited_longer = 0;
  for (unsigned i = 0; i < kPauses; ++i) {
    ASSERT_TRUE(FakeGpu::eventually([&] { return queue.running.load(); }));
    const unsigned before = turns_;
    const auto paused = runner_.pause();
    waited_longer += turns_ - before > 1;
  }
  EXPECT_LT(waited_longer, kPauses / 2);
}

TEST_F(QueueRunnerTest, ADoorbellReachesItsQueue) {
  Busy& queue = add(8);
  EXPECT_TRUE(runner_.has_doorbell(8));
  EXPECT_FALSE(runner_.has_doorbell(16));
  runner_.ring(16, 1, 8);
  runner_.ring(8, 2, 8);
  EXPECT_TRUE(FakeGpu::eventually([&] { return queue.rung == 2; }));
}

TEST_F(QueueRunnerTest, ARetiredQueueHasNoTurnAndNoDoorbell) {
  {
    Busy& queue = add(8);
    const auto paused = runner_.pause();
    queue.retire();
  }
  EXPECT_TRUE(FakeGpu::eventually([&] { return !runner_.has_doorbell(8); }));
  const unsigned before = turns_;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(turns_, before);
}

}  // namespace
}  // namespace gpu::test
