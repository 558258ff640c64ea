// SPDX-License-Identifier: GPL-2.0
// A little-endian binary image that is filled in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace gpu {

// All offsets come from the generator. One that is out of bounds is a bug, which vector::at
// catches.
class Image {
 public:
  explicit Image(size_t size) : bytes_(size) {}

  template <typename T>
  void put(size_t offset, T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes_.at(offset + i) = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
  }
  void text(size_t offset, std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) put<char>(offset + i, text[i]);
  }

  size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace gpu
