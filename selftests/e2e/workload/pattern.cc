// SPDX-License-Identifier: GPL-2.0
#include "workload/pattern.h"

#include <cstring>

namespace e2e {
namespace {

constexpr unsigned wrong_bytes(uint64_t a, uint64_t b) {
  unsigned count = 0;
  for (uint64_t rest = a ^ b; rest; rest >>= 8) count += (rest & 0xff) != 0;
  return count;
}

}  // namespace

void Pattern::fill(std::span<std::byte> bytes, uint64_t offset) const {
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t value = word(offset + i);
    memcpy(&bytes[i], &value, sizeof(value));
  }
}

std::optional<Damage> Pattern::check(std::span<const std::byte> bytes, uint64_t offset) const {
  std::optional<Damage> damage;
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t found;
    memcpy(&found, &bytes[i], sizeof(found));
    const uint64_t expected = word(offset + i);
    if (found == expected) continue;
    if (!damage) damage = Damage{0, offset + i, expected, found};
    damage->bytes += wrong_bytes(found, expected);
  }
  return damage;
}

}  // namespace e2e
