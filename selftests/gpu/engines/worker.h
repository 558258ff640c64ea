// SPDX-License-Identifier: GPL-2.0
// The thread that the engines run in. Other threads queue tasks, and wait for it only to stop or
// reset the device.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engines/queue_table.h"

namespace gpu {

class Worker {
 public:
  using Task = std::function<void()>;
  using Round = std::function<QueueTable::Activity()>;

  // Conditions are checked again after this time, which then doubles up to the longest.
  static constexpr std::chrono::microseconds kShortestPoll{10};
  static constexpr std::chrono::microseconds kLongestPoll{1000};

  explicit Worker(Round round);
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread. Tasks run in order, between two rounds.
  void post(Task task);
  // The same, and waits; if the caller is the worker itself, runs the task after this round.
  void post_and_wait(Task task);
  // Ends the thread after the round that runs. Idempotent.
  void stop();

 private:
  void loop();

  const Round round_;
  std::mutex mutex_;  // tasks_, stopping_
  std::condition_variable wake_;
  std::vector<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gpu
