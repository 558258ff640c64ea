// SPDX-License-Identifier: GPL-2.0
// File I/O at the rate of a slower disk, which serves one request after the other, of one that is
// far away, or of slower CPUs.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "pipeline/io_queue.h"

namespace amdgpu_criu::bench {

// Completes no transfer earlier than such a disk would.
class SlowDisk {
 public:
  explicit SlowDisk(double bytes_per_second) : rate_(bytes_per_second) {}

  ssize_t transfer(const pipeline::IoRequest& request, const iovec* parts, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += parts[i].iov_len;
    const Clock::time_point end = reserve(bytes);
    const ssize_t result = pipeline::transfer(request, parts, count);
    std::this_thread::sleep_until(end);
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point reserve(size_t bytes) {
    const std::chrono::duration<double> time(static_cast<double>(bytes) / rate_);
    const std::lock_guard guard(lock_);
    idle_since_ =
        std::max(idle_since_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
    return idle_since_;
  }

  const double rate_;
  std::mutex lock_;  // protects the member below
  Clock::time_point idle_since_ = Clock::now();
};

// Serves any number of requests at the same time, but each takes long, as through a network.
class FarDisk {
 public:
  explicit FarDisk(std::chrono::milliseconds delay) : delay_(delay) {}

  ssize_t transfer(const pipeline::IoRequest& request, const iovec* parts, size_t count) const {
    const auto end = std::chrono::steady_clock::now() + delay_;
    const ssize_t result = pipeline::transfer(request, parts, count);
    std::this_thread::sleep_until(end);
    return result;
  }

 private:
  const std::chrono::milliseconds delay_;
};

// Any number of threads copy at the same time, each at that rate: as on a machine with more CPUs,
// which the copies of a smaller one take turns on.
class SlowCopies {
 public:
  explicit SlowCopies(double bytes_per_second) : rate_(bytes_per_second) {}

  ssize_t transfer(const pipeline::IoRequest& request, const iovec* parts, size_t count) const {
    const auto start = std::chrono::steady_clock::now();
    const ssize_t result = pipeline::transfer(request, parts, count);
    const std::chrono::duration<double> time(static_cast<double>(std::max<ssize_t>(result, 0)) /
                                             rate_);
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
    return result;
  }

 private:
  const double rate_;
};

}  // namespace amdgpu_criu::bench
