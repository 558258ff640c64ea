// SPDX-License-Identifier: GPL-2.0
// Process::blob of a process that was saved through the stock ioctl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "image/set.h"

namespace amdgpu_criu::stock {

struct Record {
  std::vector<uint32_t> alloc_flags;  // of each BO of the process
  uint32_t num_objects = 0;
  std::vector<std::byte> private_data;
};

bool is_record(std::span<const std::byte> blob);
std::vector<std::byte> encode(const Record& record);
Result<Record> decode(std::span<const std::byte> blob);

// True if a process of the images was saved through the stock ioctl.
bool is_stock(const image::Set& images);

}  // namespace amdgpu_criu::stock
