// SPDX-License-Identifier: GPL-2.0
// The free-running counter of a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace gpu {

// 100 MHz, as in the VBIOS (smu_info core_refclk); the same for engines and interrupt entries. It
// starts at a random count: a process that moves to another GPU finds another one.
inline uint64_t gpu_clock() {
  static const uint64_t kStart = uint64_t{std::random_device()()} << 8;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return kStart + static_cast<uint64_t>(std::chrono::nanoseconds(now).count()) / 10;
}

}  // namespace gpu
