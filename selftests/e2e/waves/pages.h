// SPDX-License-Identifier: GPL-2.0
// The memory of a dumped process in CRIU's own images: pagemap-PID.img lists the pages in
// pages-N.img. Supports what the scenarios need: one dump, without a parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace amdgpu_criu {

class Pages {
 public:
  static Result<Pages> open(int directory, uint32_t pid);
  // EFAULT if the image does not have all of it.
  Status read(uint64_t address, std::span<std::byte> to) const;
  Status write(uint64_t address, std::span<const std::byte> from) const;

 private:
  struct Run {
    uint64_t address = 0, bytes = 0, offset = 0;
  };
  // Calls with a part of the range, from its beginning, and where it is in the file.
  Status for_each(uint64_t address, uint64_t bytes,
                  const std::function<bool(size_t from, size_t size, off_t at)>& transfer) const;
  Pages(Fd file, std::vector<Run> runs) : file_(std::move(file)), runs_(std::move(runs)) {}

  Fd file_;
  std::vector<Run> runs_;
};

}  // namespace amdgpu_criu
