// SPDX-License-Identifier: GPL-2.0
// The only file that uses libsodium.
#include "image/file_cipher.h"

#include <sodium.h>

#include <cerrno>
#include <cstring>

namespace amdgpu_criu::image {
namespace {

static_assert(Key::kBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
static_assert(sizeof(Sum) == crypto_aead_xchacha20poly1305_ietf_ABYTES);

using Nonce = std::array<unsigned char, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES>;

Nonce nonce_of(const Salt& salt, uint64_t place) {
  Nonce nonce;
  static_assert(sizeof(nonce) == sizeof(salt) + sizeof(place));
  memcpy(nonce.data(), salt.data(), salt.size());
  memcpy(nonce.data() + salt.size(), &place, sizeof(place));  // little-endian
  return nonce;
}

template <typename T>
auto raw(T* bytes) {
  using Char = std::conditional_t<std::is_const_v<T>, const unsigned char, unsigned char>;
  return reinterpret_cast<Char*>(bytes);
}

}  // namespace

Result<FileCipher> FileCipher::create(const Key& key) {
  if (sodium_init() < 0) return Error(EIO, "libsodium cannot be used");
  Salt salt;
  randombytes_buf(salt.data(), salt.size());
  return FileCipher(key, salt);
}

Result<FileCipher> FileCipher::create(const Key& key, const Salt& salt) {
  if (sodium_init() < 0) return Error(EIO, "libsodium cannot be used");
  return FileCipher(key, salt);
}

Sum FileCipher::encrypt(uint64_t place, std::span<std::byte> bytes,
                        std::span<const std::byte> context) const {
  const Nonce nonce = nonce_of(salt_, place);
  Sum tag;
  crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
      raw(bytes.data()), raw(tag.data()), nullptr, raw(bytes.data()), bytes.size(),
      raw(context.data()), context.size(), nullptr, nonce.data(), raw(key_.bytes().data()));
  return tag;
}

Status FileCipher::decrypt(uint64_t place, std::span<std::byte> bytes, const Sum& tag,
                           std::span<const std::byte> context) const {
  const Nonce nonce = nonce_of(salt_, place);
  if (crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
          raw(bytes.data()), nullptr, raw(bytes.data()), bytes.size(), raw(tag.data()),
          raw(context.data()), context.size(), nonce.data(), raw(key_.bytes().data())) == 0)
    return {};
  return Error(EKEYREJECTED,
               "the key is not the one that it was encrypted with, or it was changed");
}

}  // namespace amdgpu_criu::image
