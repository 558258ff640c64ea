// SPDX-License-Identifier: GPL-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace amdgpu_criu {

// The secret of encrypted images. Copies share the bytes, and the last one erases them.
class Key {
 public:
  static constexpr size_t kBytes = 32;

  // No key: images are not encrypted.
  Key() = default;
  // From a regular file of exactly kBytes bytes that only its owner can open.
  static Result<Key> read(const std::string& path);

  explicit operator bool() const { return secret_ != nullptr; }
  // There is a key.
  std::span<const std::byte, kBytes> bytes() const { return secret_->bytes; }

 private:
  struct Secret {
    Secret() = default;
    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;
    ~Secret();
    std::array<std::byte, kBytes> bytes{};
  };
  std::shared_ptr<const Secret> secret_;
};

}  // namespace amdgpu_criu
