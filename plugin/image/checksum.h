// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace amdgpu_criu::image {

// XXH3-128 in its canonical (big-endian) form.
using Sum = std::array<std::byte, 16>;
Sum checksum(std::span<const std::byte> bytes);
uint64_t short_checksum(std::span<const std::byte> bytes);

// BLAKE3: bytes with equal hashes are equal, even if an attacker chose them.
using Hash = std::array<std::byte, 32>;
Hash strong_hash(std::span<const std::byte> bytes);
// "blake3:" and the bytes in hexadecimal.
std::string text_of(const Hash& hash);

// Hashes of zeros, computed once for each size.
class HashesOfZeros {
 public:
  const Hash& of(uint32_t size);

 private:
  std::map<uint32_t, Hash> hashes_;
};

// The hash of bytes that are added one after another.
class StrongHasher {
 public:
  StrongHasher();
  StrongHasher(const StrongHasher&) = delete;
  StrongHasher& operator=(const StrongHasher&) = delete;
  ~StrongHasher();
  void add(std::span<const std::byte> bytes);
  Hash finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace amdgpu_criu::image
