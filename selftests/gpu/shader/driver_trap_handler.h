// SPDX-License-Identifier: GPL-2.0
// For tests: the trap handler that the driver gives to GPUs like the model's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cwsr_trap_handler.h>

namespace gpu::test {

inline std::span<const std::byte> driver_trap_handler() {
  return std::as_bytes(std::span(cwsr_trap_aldebaran_hex));
}

}  // namespace gpu::test
