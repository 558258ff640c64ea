// SPDX-License-Identifier: GPL-2.0
// Which faults of one kind are printed. A guest that repeats an error must not fill the disk with
// messages, and must not hide other errors.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpu {

// Any thread.
class FaultLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxLinesPerSecond = 100;

  explicit FaultLog(std::string_view kind) : kind_(kind) {}

  // Counts a fault. Returns the line to print: one for each subject and second. A line of its own
  // says if the rest of the second is not printed, so that a list of expected faults does not
  // cover it.
  std::optional<std::string> add(const std::string& text, uint64_t subject, Clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    ++count_;
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      subjects_.clear();
    }
    if (subjects_.size() > kMaxLinesPerSecond || !subjects_.insert(subject).second)
      return std::nullopt;
    if (subjects_.size() > kMaxLinesPerSecond)
      return amdgpu_criu::formatted("{}: more than {} in one second, of which the rest is not here",
                                    kind_, kMaxLinesPerSecond);
    return amdgpu_criu::formatted("{}: {}", kind_, text);
  }
  unsigned long count() const { return count_; }

 private:
  const std::string_view kind_;
  std::mutex mutex_;
  Clock::time_point second_{};  // its first fault
  std::set<uint64_t> subjects_;
  std::atomic<unsigned long> count_ = 0;
};

}  // namespace gpu
