// SPDX-License-Identifier: GPL-2.0
// The only file that uses zstd and LZ4.
#include "pipeline/codec.h"

#include <lz4.h>
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_estimateCCtxSize_usingCParams()
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace amdgpu_criu::pipeline {
namespace {

// The number of compressed bytes comes first; the bytes are followed by padding.
using StoredSize = uint32_t;

}  // namespace

struct Codec::Contexts {
  struct ZstdDeleter {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  std::unique_ptr<ZSTD_CCtx, ZstdDeleter> compress;
  std::unique_ptr<ZSTD_DCtx, ZstdDeleter> decompress;
};

Codec::Codec() : contexts_(std::make_unique<Contexts>()) {}
Codec::~Codec() = default;

std::string_view name_of(Encoding encoding) {
  constexpr std::string_view kNames[] = {"plain", "zeros", "zstd", "lz4"};
  return kNames[static_cast<uint32_t>(encoding)];
}

bool is_zero(std::span<const std::byte> bytes) {
  constexpr size_t kFirst = 64;  // usually enough to detect incompressible data
  const size_t first = std::min(kFirst, bytes.size());
  if (std::ranges::any_of(bytes.first(first), [](std::byte b) { return b != std::byte{0}; }))
    return false;
  return bytes.size() == first ||
         memcmp(bytes.data(), bytes.data() + first, bytes.size() - first) == 0;
}

size_t codec_bytes(const Compression& how, size_t chunk) {
  if (how.encoding != Encoding::kZstd) return 0;
  return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(how.level, chunk, 0));
}

std::optional<size_t> Codec::compress(const Compression& how, std::span<const std::byte> plain,
                                      std::span<std::byte> to) {
  if (how.encoding == Encoding::kPlain || plain.size() <= kStoredUnit || to.size() < kStoredUnit)
    return std::nullopt;
  // Compression must save at least one unit.
  const size_t room = std::min(to.size(), (plain.size() - 1) / kStoredUnit * kStoredUnit);
  const std::span<std::byte> out = to.subspan(sizeof(StoredSize), room - sizeof(StoredSize));
  size_t size = 0;
  if (how.encoding == Encoding::kZstd) {
    if (!contexts_->compress) contexts_->compress.reset(ZSTD_createCCtx());
    if (!contexts_->compress) return std::nullopt;
    size = ZSTD_compressCCtx(contexts_->compress.get(), out.data(), out.size(), plain.data(),
                             plain.size(), how.level);
    if (ZSTD_isError(size)) return std::nullopt;
  } else {
    size = LZ4_compress_default(reinterpret_cast<const char*>(plain.data()),
                                reinterpret_cast<char*>(out.data()), static_cast<int>(plain.size()),
                                static_cast<int>(out.size()));
    if (size == 0) return std::nullopt;
  }
  const auto header = static_cast<StoredSize>(size);
  memcpy(to.data(), &header, sizeof(header));
  size += sizeof(StoredSize);
  const size_t stored = (size + kStoredUnit - 1) / kStoredUnit * kStoredUnit;
  std::ranges::fill(to.subspan(size, stored - size), std::byte{0});
  return stored;
}

Status Codec::decompress(Encoding encoding, std::span<const std::byte> stored,
                         std::span<std::byte> plain) {
  StoredSize size = 0;
  if (stored.size() < sizeof(size)) return Error(EBADMSG, "too short to be decompressed");
  memcpy(&size, stored.data(), sizeof(size));
  const auto in = stored.subspan(sizeof(size));
  if (size > in.size()) return Error(EBADMSG, "compressed bytes are longer than what is stored");
  if (!is_zero(in.subspan(size))) return Error(EBADMSG, "padding is not of zeros");
  bool whole = false;
  if (encoding == Encoding::kZstd) {
    if (!contexts_->decompress) contexts_->decompress.reset(ZSTD_createDCtx());
    if (!contexts_->decompress) return Error(ENOMEM, "no memory to decompress");
    whole = ZSTD_decompressDCtx(contexts_->decompress.get(), plain.data(), plain.size(), in.data(),
                                size) == plain.size();
  } else if (encoding == Encoding::kLz4) {
    whole = LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()),
                                reinterpret_cast<char*>(plain.data()), static_cast<int>(size),
                                static_cast<int>(plain.size())) == static_cast<int>(plain.size());
  }
  if (!whole) return Error::of(EBADMSG, "cannot be decompressed by {}", name_of(encoding));
  return {};
}

std::span<std::byte> StoredRoom::get(size_t size) {
  if (memory_.empty()) memory_.resize(size + kStoredUnit);
  void* start = memory_.data();
  size_t space = memory_.size();
  std::align(kStoredUnit, size, start, space);
  return {static_cast<std::byte*>(start), size};
}

}  // namespace amdgpu_criu::pipeline
