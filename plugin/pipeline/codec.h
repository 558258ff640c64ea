// SPDX-License-Identifier: GPL-2.0
// The encoding of a chunk in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace amdgpu_criu::pipeline {

// The numbers are those in the files.
enum class Encoding : uint32_t { kPlain = 0, kZeros = 1, kZstd = 2, kLz4 = 3 };
inline constexpr uint32_t kLastEncoding = 3;
std::string_view name_of(Encoding encoding);

// Stored chunks begin and end at multiples of this, for direct I/O.
inline constexpr size_t kStoredUnit = 4096;

bool is_zero(std::span<const std::byte> bytes);

// kPlain: compresses nothing.
struct Compression {
  Encoding encoding = Encoding::kPlain;
  int level = 0;  // of zstd; 0: its default
};

// The memory that a Codec needs to compress chunks of this size.
size_t codec_bytes(const Compression& how, size_t chunk);
// The most that all threads of a GPU have for that.
inline constexpr size_t kMaxCodecBytes = 16u << 20;

// Not thread-safe.
class Codec {
 public:
  Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  ~Codec();

  // Returns the size of the result in `to`, rounded up to kStoredUnit and padded with zeros;
  // nullopt if that is not less than the plain bytes.
  std::optional<size_t> compress(const Compression& how, std::span<const std::byte> plain,
                                 std::span<std::byte> to);
  // Fails unless the result has exactly plain.size() bytes.
  Status decompress(Encoding encoding, std::span<const std::byte> stored,
                    std::span<std::byte> plain);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// Memory for compressed chunks, aligned for direct I/O and allocated at the first use.
class StoredRoom {
 public:
  // Always called with the same size, so the address does not change.
  std::span<std::byte> get(size_t size);

 private:
  std::vector<std::byte> memory_;
};

}  // namespace amdgpu_criu::pipeline
