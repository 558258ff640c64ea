// SPDX-License-Identifier: GPL-2.0
// Progress for programs: lines of JSON to a descriptor that CRIU has inherited (amdgpu.status-fd).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/interruption.h"
#include "base/progress.h"

namespace amdgpu_criu {

// In CRIU's main process, and in the process in the background. Restored tasks must not write:
// there the number is that of another file. A line is omitted if it would have to wait for the
// reader.
class StatusLines {
 public:
  // operation: of an Interruption, or "pre-dump"; fd: -1: writes nothing
  StatusLines(const char* operation, int fd, const Interruption& interruption)
      : operation_(operation), fd_(fd), interruption_(interruption) {}

  // reason: of a failure
  void phase(std::string_view phase, std::string_view reason = {}) const;
  void progress(std::string_view phase, uint32_t gpu_id, const Progress& progress) const;

 private:
  void write(std::string_view phase, const std::string& members) const;

  const char* operation_;
  int fd_;
  const Interruption& interruption_;
};

// False: it cannot be written.
bool is_writable(int fd);

}  // namespace amdgpu_criu
