// SPDX-License-Identifier: GPL-2.0
// How a chunk's bytes stand in a file.
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

// Numbers are those in the files.
enum class Encoding : uint32_t { kPlain = 0, kZeros = 1, kZstd = 2, kLz4 = 3 };
inline constexpr uint32_t kLastEncoding = 3;
std::string_view name_of(Encoding encoding);

// What is stored begins and ends at multiples of this, for direct I/O.
inline constexpr size_t kStoredUnit = 4096;

bool is_zero(std::span<const std::byte> bytes);

// kPlain: compresses nothing.
struct Compression {
  Encoding encoding = Encoding::kPlain;
  int level = 0;  // of zstd; 0: its default
};

// What a Codec takes to compress chunks of this size.
size_t codec_bytes(const Compression& how, size_t chunk);

// For one thread.
class Codec {
 public:
  Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  ~Codec();

  // The size of what was put into `to`, rounded up to kStoredUnit and padded with zeros; nullopt if
  // that is no less than the plain bytes.
  std::optional<size_t> compress(const Compression& how, std::span<const std::byte> plain,
                                 std::span<std::byte> to);
  // An error if it does not become exactly plain.size() bytes.
  Status decompress(Encoding encoding, std::span<const std::byte> stored,
                    std::span<std::byte> plain);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// Memory for what is stored compressed, aligned for direct I/O; there is none until it is needed.
class StoredRoom {
 public:
  // Always called with the same size: where the bytes are stays.
  std::span<std::byte> get(size_t size);

 private:
  std::vector<std::byte> memory_;
};

}  // namespace amdgpu_criu::pipeline
