// SPDX-License-Identifier: GPL-2.0
// PATIENCE=FACTOR in the environment multiplies time limits on a slow machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace amdgpu_criu::testing_support {

inline std::chrono::milliseconds patient(std::chrono::milliseconds limit) {
  const char* text = getenv("PATIENCE");
  return limit * std::max(text ? atoi(text) : 1, 1);
}

}  // namespace amdgpu_criu::testing_support
