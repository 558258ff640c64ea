// SPDX-License-Identifier: GPL-2.0
// File I/O at the rate of a slower disk: a thread that transfers one request after the other, and
// completes each no earlier than such a disk would.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "pipeline/io_queue.h"

namespace amdgpu_criu::bench {

class SlowDisk : public pipeline::IoQueue {
 public:
  explicit SlowDisk(double bytes_per_second) : rate_(bytes_per_second) {}
  SlowDisk(const SlowDisk&) = delete;
  SlowDisk& operator=(const SlowDisk&) = delete;
  ~SlowDisk() override {
    drain();
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    changed_.notify_all();
  }
  const char* name() const override { return "slow disk"; }

 private:
  using Clock = std::chrono::steady_clock;

  void start(Work& work) override {
    {
      const std::lock_guard guard(lock_);
      to_do_.push_back(&work);
    }
    changed_.notify_all();
  }
  Completion wait_for_any() override {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return !done_.empty(); });
    const Completion done = done_.front();
    done_.pop_front();
    return done;
  }
  size_t depth() const override { return 64; }

  static ssize_t transfer(const Work& work) {
    const pipeline::IoRequest& request = work.request;
    const auto parts = static_cast<int>(work.parts());
    const auto offset = static_cast<off_t>(request.offset);
    const ssize_t result = request.write ? pwritev(request.fd, work.next(), parts, offset)
                                         : preadv(request.fd, work.next(), parts, offset);
    return result < 0 ? -errno : result;
  }
  void run() {
    Clock::time_point idle_since = Clock::now();
    std::unique_lock guard(lock_);
    while (true) {
      changed_.wait(guard, [&] { return stop_ || !to_do_.empty(); });
      if (to_do_.empty()) return;
      Work* const work = to_do_.front();
      to_do_.pop_front();
      guard.unlock();
      const std::chrono::duration<double> time(static_cast<double>(bytes_of(*work)) / rate_);
      idle_since =
          std::max(idle_since, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
      const ssize_t result = transfer(*work);
      std::this_thread::sleep_until(idle_since);
      guard.lock();
      done_.push_back({work, result});
      changed_.notify_all();
    }
  }
  static size_t bytes_of(const Work& work) {
    size_t bytes = 0;
    for (size_t i = 0; i < work.parts(); i++) bytes += work.next()[i].iov_len;
    return bytes;
  }

  const double rate_;
  std::mutex lock_;  // protects the members below, except the thread
  std::condition_variable changed_;
  std::deque<Work*> to_do_;
  std::deque<Completion> done_;
  bool stop_ = false;
  std::jthread thread_{[this] { run(); }};
};

}  // namespace amdgpu_criu::bench
