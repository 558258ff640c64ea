// SPDX-License-Identifier: GPL-2.0
#include "engines/queue_runner.h"

#include <algorithm>

namespace gpu {

std::unique_lock<std::mutex> QueueRunner::pause() {
  const std::lock_guard turn(turn_);
  return std::unique_lock(running_);
}

Worker::Task QueueRunner::with_queues(Worker::Task task) {
  return [this, task = std::move(task)] {
    const auto running = pause();
    task();
  };
}

void QueueRunner::post(Worker::Task task) { worker_.post(with_queues(std::move(task))); }

void QueueRunner::post_and_wait(Worker::Task task) {
  worker_.post_and_wait(with_queues(std::move(task)));
}

void QueueRunner::ring(uint32_t doorbell, uint64_t value, unsigned size) {
  post([this, doorbell, value, size] { queues_.doorbell(doorbell, value, size); });
}

void QueueRunner::in_each_round(std::function<bool()> call) {
  post([this, call = std::move(call)] { call_ = call; });
}

void QueueRunner::delay(uint32_t seed) {
  post([this, seed] { queues_.delay(seed); });
}

QueueTable::Activity QueueRunner::round() {
  const auto running = pause();
  const bool waits = call_ && call_();
  const auto activity = queues_.round();
  return waits ? std::max(activity, QueueTable::Activity::kWaiting) : activity;
}

}  // namespace gpu
