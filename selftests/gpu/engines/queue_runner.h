// SPDX-License-Identifier: GPL-2.0
// A thread and the queues that it runs. The thread of the command processor maps and unmaps queues
// of other threads, too, while it has paused them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/queue_table.h"
#include "engines/worker.h"

namespace gpu {

class QueueRunner {
 public:
  QueueRunner() : worker_([this] { return round(); }) {}
  ~QueueRunner() { stop(); }

  // Any thread. Tasks run in order, between two rounds, and may use queues().
  void post(Worker::Task task);
  void post_and_wait(Worker::Task task);
  void ring(uint32_t doorbell, uint64_t value, unsigned size);
  // After queues were added while it was paused.
  void wake() {
    worker_.post([] {});
  }
  // Ends the thread after the round that runs. Idempotent.
  void stop() { worker_.stop(); }

  // Any thread. Waits for the round that runs; no queue runs as long as the result exists.
  [[nodiscard]] std::unique_lock<std::mutex> pause();

  // From now on: called in each round before the queues run. True while something waits.
  void in_each_round(std::function<bool()> call);
  // Seed of QueueTable::delay().
  void delay(uint32_t seed);

  // For tasks, in a round, and while it is paused.
  QueueTable& queues() { return queues_; }
  // Any thread. Whether a mapped queue has the doorbell.
  bool has_doorbell(uint32_t doorbell) const { return queues_.has_doorbell(doorbell); }

 private:
  Worker::Task with_queues(Worker::Task task);
  QueueTable::Activity round();

  std::mutex turn_;     // held to wait for running_, so that the thread cannot take it again first
  std::mutex running_;  // queues_, call_
  QueueTable queues_;
  std::function<bool()> call_;
  Worker worker_;  // last: its thread uses the rest
};

// By engine of the chip.
using SdmaRunners = std::vector<std::unique_ptr<QueueRunner>>;

}  // namespace gpu
