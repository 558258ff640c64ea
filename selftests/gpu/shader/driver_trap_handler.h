// SPDX-License-Identifier: GPL-2.0
// For tests: the driver's trap handler for GPUs like the model, and the second level that a runtime
// adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cwsr_trap_handler.h>

#include "shader/code_object.h"

namespace gpu::test {

inline std::span<const std::byte> driver_trap_handler() {
  return std::as_bytes(std::span(cwsr_trap_aldebaran_hex));
}

// KFD puts both levels into every process: the first at TBA, and where the second one is at TMA.
constexpr uint64_t kTmaAfterTba = 0x1800;

template <typename Put>
void put_trap_handlers(uint64_t tba, Put put) {
  const uint64_t code = tba + 0x2000;
  put(tba, driver_trap_handler().data(), driver_trap_handler().size());
  const CodeObject object(KERNELS "/second_level.co");
  put(code, object.image().data(), object.image().size());
  const uint64_t second = code + object.symbol("second_level");
  put(tba + kTmaAfterTba, &second, sizeof(second));
}

}  // namespace gpu::test
