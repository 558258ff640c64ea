// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <hip/hip_runtime.h>

#include <string>

namespace e2e {

inline std::string failure(const char* what, hipError_t error) {
  return std::string(what) + ": " + hipGetErrorString(error);
}

// Returns what has failed from a function that returns the problem, or empty.
#define HIP(call)                                                                           \
  do {                                                                                      \
    if (const hipError_t error = (call); error != hipSuccess) return failure(#call, error); \
  } while (false)

}  // namespace e2e
