// SPDX-License-Identifier: GPL-2.0
// The stock kernel's private data, version 1. The plugin reads only the records of queues, to
// decide whether a restore is possible.
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
  // Adds room for control stacks of queues that the kernel saved without them. Linux 7.3 without a
  // fix saves none; the waves of a queue that was restored without that room would overwrite the
  // memory behind it.
  std::vector<std::byte> data;
};

// Refuses another version, inconsistent data, and a queue with waves in its control stack that were
// not saved.
Result<Described> describe(std::span<const std::byte> private_data, const Counts& counts);

}  // namespace amdgpu_criu::stock
