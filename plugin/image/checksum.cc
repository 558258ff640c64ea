// SPDX-License-Identifier: GPL-2.0
#include "image/checksum.h"

// Inlined, so that the plugin needs no further shared library in CRIU's process.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace image {

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

}  // namespace image
