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

inline std::span<const std::byte> driver_trap_handler(shader::Isa isa) {
  if (is_gfx11(isa)) return std::as_bytes(std::span<const uint32_t>(cwsr_trap_gfx11_hex));
  return std::as_bytes(isa == shader::Isa::kGfx942
                           ? std::span<const uint32_t>(cwsr_trap_gfx9_4_3_hex)
                           : std::span<const uint32_t>(cwsr_trap_aldebaran_hex));
}

// KFD puts both levels into every process: the first at TBA, and where the second one is at TMA.
constexpr uint64_t kTmaAfterTba = 0x1800;

template <typename Put>
void put_trap_handlers(uint64_t tba, Put put, shader::Isa isa = shader::Isa::kGfx90a) {
  const uint64_t code = tba + 0x2000;
  const auto first_level = driver_trap_handler(isa);
  put(tba, first_level.data(), first_level.size());
  // Nothing but the context save enters the handler of gfx11.
  if (is_gfx11(isa)) return;
  const CodeObject object(object_path("second_level.co", isa));
  put(code, object.image().data(), object.image().size());
  const uint64_t second = code + object.symbol("second_level");
  put(tba + kTmaAfterTba, &second, sizeof(second));
}

}  // namespace gpu::test
