// SPDX-License-Identifier: GPL-2.0
// The stock kernel's private data, version 1: what it says of queues must be read to decide whether
// it holds all that restore needs. Everything else in it is the kernel's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::stock {

struct Counts {
  uint32_t devices = 0;
  uint32_t bos = 0;
  uint32_t objects = 0;
};

struct Described {
  uint32_t queues = 0;
  uint32_t events = 0;
  uint32_t svm_ranges = 0;
  // With room for the control stacks of queues that the kernel saved without any: before it was
  // mended, Linux 7.2 saves none, and a queue restored without room for one has its waves saved
  // over what is behind it in memory.
  std::vector<std::byte> data;
};

// Refuses another version, data that is not consistent, and a queue with waves in its control stack
// that were not saved.
Result<Described> describe(std::span<const std::byte> private_data, const Counts& counts);

}  // namespace amdgpu_criu::stock
