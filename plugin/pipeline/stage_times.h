// SPDX-License-Identifier: GPL-2.0
// The times that the thread which moves contents of a GPU waited. It spends the rest on imports and
// submissions.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"

namespace amdgpu_criu::pipeline {

struct StageTimes {
  using Clock = std::chrono::steady_clock;
  Clock::duration copies{};  // waiting for the GPU
  Clock::duration files{};   // waiting for file I/O
  Clock::duration bytes{};   // waiting for workers: zeros, checksums, compression

  std::string text() const {
    return formatted("waited {} ms for copies, {} ms for files, {} ms for checksums", ms(copies),
                     ms(files), ms(bytes));
  }

 private:
  static long long ms(Clock::duration time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  }
};

// Adds the time between its construction and destruction.
class Stopwatch {
 public:
  explicit Stopwatch(StageTimes::Clock::duration& sum) : sum_(sum) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { sum_ += StageTimes::Clock::now() - start_; }

 private:
  StageTimes::Clock::duration& sum_;
  StageTimes::Clock::time_point start_ = StageTimes::Clock::now();
};

}  // namespace amdgpu_criu::pipeline
