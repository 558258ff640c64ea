// SPDX-License-Identifier: GPL-2.0
// What a snapshot command prints on stderr: a line for each step, with the time since the start;
// and the progress of the plugin (amdgpu.status-fd).
#pragma once

#include <mutex>
#include <string>

#include "base/pipe.h"
#include "snapshot/program.h"

namespace amdgpu_criu::snapshot {

class Report {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  template <typename... Args>
  void say(std::format_string<Args...> text, Args&&... args) {
    print(formatted(text, std::forward<Args>(args)...));
  }
  // A line without a time.
  void detail(const std::string& text);

 private:
  void print(const std::string& text);

  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
};

// The lines that the plugin writes to its status descriptor.
class StatusPipe {
 public:
  static Result<StatusPipe> create();

  int writing_end() const { return pipe_.write.get(); }
  // For the child: criu inherits the descriptor.
  Status keep_in_child() const;
  // In the parent, when the child exists.
  void close_writing_end() { pipe_.write.reset(); }
  // Reports new phases, and the progress of a long one, each line after `prefix`.
  void read(Report& report, const std::string& prefix);

 private:
  void report_line(const std::string& line, Report& report, const std::string& prefix);

  Pipe pipe_;
  std::string text_;
  std::string phase_;
  Clock::time_point reported_;
};

}  // namespace amdgpu_criu::snapshot
