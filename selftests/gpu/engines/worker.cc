// SPDX-License-Identifier: GPL-2.0
#include "engines/worker.h"

#include <algorithm>
#include <future>

namespace gpu {

Worker::Worker(Round round) : round_(std::move(round)), thread_([this] { loop(); }) {}

void Worker::post(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  wake_.notify_one();
}

void Worker::post_and_wait(Task task) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    post(std::move(task));
    return;
  }
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> finished = done->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back([task = std::move(task), done] {
      task();
      done->set_value();
    });
    wake_.notify_one();
  }
  done.reset();
  // If the thread stops first, the task and its promise are destroyed without running.
  finished.wait();
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  tasks_.clear();
}

void Worker::loop() {
  auto poll = kShortestPoll;
  std::vector<Task> tasks;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    tasks.swap(tasks_);
    lock.unlock();
    for (Task& task : tasks) task();
    if (!tasks.empty()) poll = kShortestPoll;
    tasks.clear();
    const auto activity = round_();
    lock.lock();
    const auto woken = [this] { return stopping_ || !tasks_.empty(); };
    if (activity == QueueTable::Activity::kBusy) {
      poll = kShortestPoll;
    } else if (activity == QueueTable::Activity::kIdle) {
      wake_.wait(lock, woken);
    } else {
      wake_.wait_for(lock, poll, woken);
      poll = std::min(poll * 2, kLongestPoll);
    }
  }
}

}  // namespace gpu
