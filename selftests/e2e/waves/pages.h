// SPDX-License-Identifier: GPL-2.0
// The memory of a dumped process in CRIU's own images: pagemap-PID.img lists the pages in
// pages-N.img. Supports what the scenarios need: one dump, without a parent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace amdgpu_criu {

class Pages {
 public:
  static Result<Pages> open(int directory, uint32_t pid);
  // Overwrites the pages that the image has; EFAULT if it has none.
  Status zero(uint64_t address, uint64_t bytes) const;

 private:
  struct Run {
    uint64_t address = 0, bytes = 0, offset = 0;
  };
  Pages(Fd file, std::vector<Run> runs) : file_(std::move(file)), runs_(std::move(runs)) {}

  Fd file_;
  std::vector<Run> runs_;
};

}  // namespace amdgpu_criu
