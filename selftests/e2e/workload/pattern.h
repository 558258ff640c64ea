// SPDX-License-Identifier: GPL-2.0
// The contents of data BOs: every 8-byte word depends on its BO and its offset, so that a page that
// is lost, stale, shifted or from another BO is detected, and every byte of a BO can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace e2e {

// A bijection of 64-bit words: no two offsets of one BO have the same word.
constexpr uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

struct Damage {
  uint64_t bytes;         // how many bytes are wrong
  uint64_t first_offset;  // of the first wrong word, from the start of the BO
  uint64_t expected;
  uint64_t found;

  // Adds the damage of the following part of the BO.
  void add(const Damage& later) { bytes += later.bytes; }
};

class Pattern {
 public:
  explicit constexpr Pattern(uint64_t seed) : seed_(mix(seed)) {}

  constexpr uint64_t word(uint64_t offset) const { return mix(seed_ ^ (offset / 8)); }

  // bytes: the part of the BO that starts at offset; both multiples of 8.
  void fill(std::span<std::byte> bytes, uint64_t offset = 0) const;
  std::optional<Damage> check(std::span<const std::byte> bytes, uint64_t offset = 0) const;

 private:
  uint64_t seed_;
};

}  // namespace e2e
