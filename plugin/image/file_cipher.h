// SPDX-License-Identifier: GPL-2.0
// Authenticated encryption of image files by XChaCha20-Poly1305. The nonce is the file's salt and
// the place of the bytes in the file, so no two messages have the same: salts are random, and a
// place is written once.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/key.h"
#include "base/result.h"
#include "image/checksum.h"

namespace amdgpu_criu::image {

using Salt = std::array<std::byte, 16>;

// Any thread may call const members.
class FileCipher {
 public:
  // Of a file to be written.
  static Result<FileCipher> create(const Key& key);
  // Of a file with that salt.
  static Result<FileCipher> create(const Key& key, const Salt& salt);

  const Salt& salt() const { return salt_; }
  // Encrypts in place. Returns the tag that proves the bytes and the context.
  Sum encrypt(uint64_t place, std::span<std::byte> bytes,
              std::span<const std::byte> context = {}) const;
  // Decrypts in place. EKEYREJECTED if the tag does not prove the bytes, their place and the
  // context; the bytes stay encrypted then.
  Status decrypt(uint64_t place, std::span<std::byte> bytes, const Sum& tag,
                 std::span<const std::byte> context = {}) const;

 private:
  FileCipher(Key key, const Salt& salt) : key_(std::move(key)), salt_(salt) {}

  Key key_;
  Salt salt_;
};

}  // namespace amdgpu_criu::image
