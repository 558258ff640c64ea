// SPDX-License-Identifier: GPL-2.0
// The wire format of protobuf, for what protobuf-c would need too much memory for.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace amdgpu_criu::image::wire {

using Bytes = std::span<const std::byte>;

enum Type : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr uint64_t tag(uint64_t field, Type type) { return field << 3 | type; }

// Reads a message from its start. Each function returns nullopt if it is malformed.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  Bytes rest() const { return rest_; }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    return std::nullopt;
  }
  std::optional<Bytes> bytes() {
    const auto size = varint();
    return size ? take(*size) : std::nullopt;
  }
  // The value after such a tag, of any type.
  std::optional<Bytes> skip(uint64_t tag) {
    const Bytes before = rest_;
    switch (tag & 7) {
      case kVarint:
        if (!varint()) return std::nullopt;
        return before.first(before.size() - rest_.size());
      case kFixed64:
        return take(8);
      case kBytes:
        if (!bytes()) return std::nullopt;
        return before.first(before.size() - rest_.size());
      case kFixed32:
        return take(4);
    }
    return std::nullopt;
  }

 private:
  std::optional<Bytes> take(uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    const Bytes result = rest_.first(size);
    rest_ = rest_.subspan(size);
    return result;
  }

  Bytes rest_;
};

constexpr size_t size_of(uint64_t value) { return (std::bit_width(value | 1) + 6) / 7; }

inline void put(std::vector<std::byte>& to, uint64_t value) {
  for (; value > 0x7f; value >>= 7) to.push_back(static_cast<std::byte>(value | 0x80));
  to.push_back(static_cast<std::byte>(value));
}

}  // namespace amdgpu_criu::image::wire
