// SPDX-License-Identifier: GPL-2.0
#include "image/checksum.h"

#include <blake3.h>

#include <cstring>
#include <vector>

#include "base/result.h"

// In xxh3.c. Unlike the shared library, the static one that is linked does not choose among
// instruction sets.
extern "C" {
using Xxh3 = void(const void* bytes, size_t size, unsigned char* sum);
Xxh3 amdgpu_criu_xxh3;
uint64_t amdgpu_criu_xxh3_short(const void* bytes, size_t size);
#ifdef __x86_64__
Xxh3 amdgpu_criu_xxh3_avx2, amdgpu_criu_xxh3_avx512;
#endif
}

namespace amdgpu_criu::image {
namespace {

Xxh3* best_xxh3() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return amdgpu_criu_xxh3_avx512;
  if (__builtin_cpu_supports("avx2")) return amdgpu_criu_xxh3_avx2;
#endif
  return amdgpu_criu_xxh3;
}

}  // namespace

Sum checksum(std::span<const std::byte> bytes) {
  static Xxh3* const xxh3 = best_xxh3();
  Sum result;
  xxh3(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(result.data()));
  return result;
}

uint64_t short_checksum(std::span<const std::byte> bytes) {
  return amdgpu_criu_xxh3_short(bytes.data(), bytes.size());
}

struct StrongHasher::State {
  blake3_hasher hasher;
};

StrongHasher::StrongHasher() : state_(std::make_unique<State>()) {
  blake3_hasher_init(&state_->hasher);
}
StrongHasher::~StrongHasher() = default;

void StrongHasher::add(std::span<const std::byte> bytes) {
  blake3_hasher_update(&state_->hasher, bytes.data(), bytes.size());
}

Hash StrongHasher::finish() const {
  Hash result;
  static_assert(sizeof(result) == BLAKE3_OUT_LEN);
  blake3_hasher_finalize(&state_->hasher, reinterpret_cast<uint8_t*>(result.data()), result.size());
  return result;
}

Hash strong_hash(std::span<const std::byte> bytes) {
  StrongHasher hasher;
  hasher.add(bytes);
  return hasher.finish();
}

const Hash& HashesOfZeros::of(uint32_t size) {
  const auto [hash, is_new] = hashes_.try_emplace(size);
  if (is_new) hash->second = strong_hash(std::vector<std::byte>(size));
  return hash->second;
}

std::string text_of(const Hash& hash) {
  std::string result = "blake3:";
  for (const std::byte byte : hash) result += formatted("{:02x}", static_cast<unsigned>(byte));
  return result;
}

}  // namespace amdgpu_criu::image
