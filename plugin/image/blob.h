// SPDX-License-Identifier: GPL-2.0
// Lists the records of a kernel's blob, for display. It does not interpret their fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::image {

// All records of one type and version.
struct BlobRecords {
  uint16_t type = 0;
  uint16_t version = 0;
  uint64_t count = 0;
  uint64_t bytes = 0;  // of payload
  // "queue", or "type 0x123" for a type that a later kernel has added.
  std::string name() const;
};

// In the order in which they first occur.
Result<std::vector<BlobRecords>> list_records(std::span<const std::byte> blob);

}  // namespace amdgpu_criu::image
