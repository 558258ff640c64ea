// SPDX-License-Identifier: GPL-2.0
// The only file that knows nettle, which takes the processor's own instructions for SHA-256.
#include <nettle/sha2.h>

#include "image/checksum.h"

namespace amdgpu_criu::image {

Hash strong_hash(std::span<const std::byte> bytes) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  Hash result;
  static_assert(sizeof(result) == SHA256_DIGEST_SIZE);
  sha256_digest(&context, result.size(), reinterpret_cast<uint8_t*>(result.data()));
  return result;
}

}  // namespace amdgpu_criu::image
