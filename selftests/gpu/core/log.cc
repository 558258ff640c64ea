// SPDX-License-Identifier: GPL-2.0
#include "core/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>

namespace gpu {
namespace {

std::string& prefix() {
  static std::string text = "softgpu";
  return text;
}

void print(const std::string& text) {
  const std::string line = amdgpu_criu::formatted("{}: {}\n", prefix(), text);
  fwrite(line.data(), 1, line.size(), stderr);
}

// A guest that repeats an error must not fill the disk with messages, and must not hide later
// errors.
class FaultLog {
 public:
  explicit FaultLog(std::string_view kind) : kind_(kind) {}

  void add(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    const Clock::time_point now = Clock::now();
    ++count_;
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      printed_ = 0;
    }
    if (printed_ >= kMaxLinesPerSecond) return;
    ++printed_;
    print(amdgpu_criu::formatted("{}: {}", kind_, text));
  }
  unsigned long count() const { return count_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kMaxLinesPerSecond = 10;

  const std::string_view kind_;
  std::mutex mutex_;
  Clock::time_point second_{};
  unsigned printed_ = 0;
  std::atomic<unsigned long> count_ = 0;
};

FaultLog& log_of(Fault kind) {
  static FaultLog model("model fault"), vm("VM fault");
  return kind == Fault::kModel ? model : vm;
}

}  // namespace

void set_log_prefix(std::string text) { prefix() = std::move(text); }

void log_line(const std::string& text) { print(text); }

void log_fault(Fault kind, const std::string& text) { log_of(kind).add(text); }

unsigned long model_faults() { return log_of(Fault::kModel).count(); }

}  // namespace gpu
