// SPDX-License-Identifier: GPL-2.0
#include "image/checksum.h"

// Code for any x86-64 is half as fast as AVX2. The library selects AVX2 at run time if the CPU has
// it.
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <blake3.h>

#include <cstring>

#include "base/result.h"

namespace amdgpu_criu::image {

Sum checksum(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Sum result;
  static_assert(sizeof(canonical.digest) == sizeof(result));
  memcpy(result.data(), canonical.digest, sizeof(result));
  return result;
}

uint64_t short_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
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

std::string text_of(const Hash& hash) {
  std::string result = "blake3:";
  for (const std::byte byte : hash) result += formatted("{:02x}", static_cast<unsigned>(byte));
  return result;
}

}  // namespace amdgpu_criu::image
