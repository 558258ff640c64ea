// SPDX-License-Identifier: GPL-2.0
// Progress of a command on stderr: one line that is written over on a terminal, plain lines
// elsewhere. stdout has the results only.
#pragma once

#include <cstdio>
#include <string>

#include "base/progress.h"

namespace amdgpu_criu::tool {

class ProgressLine {
 public:
  ProgressLine(std::string what, uint64_t total_bytes);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Leaves nothing of itself on a terminal.
  ~ProgressLine();

  void add(uint64_t bytes);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  Progress progress_;
};

}  // namespace amdgpu_criu::tool
