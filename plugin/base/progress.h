// SPDX-License-Identifier: GPL-2.0
// Progress of long work: counts bytes, and reports at intervals.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace amdgpu_criu {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // interval: the least time between two reports, and before the first one.
  Progress(uint64_t total_bytes, Clock::duration interval, Clock::time_point now = Clock::now())
      : total_(total_bytes), interval_(interval), start_(now), last_(now) {}

  // Adds bytes. Returns a text if a report is due and the work is not complete.
  std::optional<std::string> add(uint64_t bytes, Clock::time_point now = Clock::now()) {
    done_ += bytes;
    if (now - last_ < interval_ || done_ >= total_) return std::nullopt;
    last_ = now;
    return text(now);
  }

  uint64_t done() const { return done_; }
  uint64_t total() const { return total_; }
  // In bytes per second.
  double rate(Clock::time_point now = Clock::now()) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    return seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  }

  // "43 %, 1204 of 2800 MiB, 3.2 s, 376 MiB/s"
  std::string text(Clock::time_point now = Clock::now()) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double mebibytes = static_cast<double>(done_) / kMebibyte;
    return formatted("{} %, {:.0f} of {:.0f} MiB, {:.1f} s, {:.0f} MiB/s", percent(), mebibytes,
                     static_cast<double>(total_) / kMebibyte, seconds,
                     seconds > 0 ? mebibytes / seconds : 0);
  }

 private:
  static constexpr double kMebibyte = 1 << 20;

  unsigned percent() const {
    if (done_ >= total_) return 100;
    return static_cast<unsigned>(100 * static_cast<double>(done_) / static_cast<double>(total_));
  }

  uint64_t total_;
  Clock::duration interval_;
  Clock::time_point start_, last_;
  uint64_t done_ = 0;
};

// Called at most once a second, and at the end.
using ReportProgress = std::function<void(const Progress&)>;

}  // namespace amdgpu_criu
