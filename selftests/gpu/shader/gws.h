// SPDX-License-Identifier: GPL-2.0
// Global wave sync: resources at which waves of different work-groups wait for each other (DS_GWS_*
// in the ISA document).
#pragma once

#include <array>
#include <cstdint>

namespace gpu::shader {

// Only counters last. The dispatch knows which waves wait; after a preemption they arrive again.
struct Gws {
  static constexpr unsigned kResources = 64;
  static constexpr uint32_t kMaxCount = 255;
  using Words = std::array<uint32_t, kResources / 4>;

  unsigned resources = 0;  // that the driver has given to the process
  std::array<uint8_t, kResources> counters = {};

  Words pack() const {
    Words words = {};
    for (unsigned i = 0; i < kResources; ++i) words[i / 4] |= uint32_t{counters[i]} << i % 4 * 8;
    return words;
  }
  void unpack(const Words& words) {
    for (unsigned i = 0; i < kResources; ++i)
      counters[i] = static_cast<uint8_t>(words[i / 4] >> i % 4 * 8);
  }
};

// What a wave asks for.
struct GwsRequest {
  enum class Kind : uint8_t { kInit, kBarrier, kTake, kGive, kGiveMany, kReleaseAll };
  Kind kind = Kind::kInit;
  unsigned resource = 0;
  uint32_t count = 0;
};

}  // namespace gpu::shader
