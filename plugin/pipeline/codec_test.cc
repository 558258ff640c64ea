// SPDX-License-Identifier: GPL-2.0
#include "pipeline/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace amdgpu_criu::pipeline {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t size) {
  std::mt19937_64 random(size);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes text_bytes(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<std::byte>(i / 64 % 32);
  return bytes;
}

TEST(IsZero, SeesEveryByte) {
  for (const size_t size : {1, 63, 64, 65, 200}) {
    Bytes bytes(size);
    EXPECT_TRUE(is_zero(bytes));
    for (std::byte& byte : bytes) {
      byte = std::byte{1};
      EXPECT_FALSE(is_zero(bytes)) << size;
      byte = std::byte{0};
    }
  }
  EXPECT_TRUE(is_zero({}));
}

class Codecs : public testing::TestWithParam<Encoding> {
 protected:
  Codec codec_;
};

TEST_P(Codecs, DecompressionReturnsTheSameBytes) {
  for (const size_t size : {8192u, 65536u, 262144u, 262144u + 4096u}) {
    const Bytes plain = text_bytes(size);
    Bytes stored(size, std::byte{0xee}), back(size);
    const auto used = codec_.compress({GetParam(), 0}, plain, stored);
    ASSERT_TRUE(used);
    EXPECT_LT(*used, size);
    EXPECT_EQ(*used % kStoredUnit, 0u);
    const auto status = codec_.decompress(GetParam(), std::span(stored).first(*used), back);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_EQ(back, plain);
  }
}

TEST_P(Codecs, IncompressibleBytesStayAsTheyAre) {
  const Bytes plain = random_bytes(65536);
  Bytes stored(plain.size());
  EXPECT_FALSE(codec_.compress({GetParam(), 0}, plain, stored));
  EXPECT_FALSE(codec_.compress({GetParam(), 0}, text_bytes(4096), stored)) << "one unit";
}

// After a change of any byte, decompression fails or returns other bytes, which the checksum of the
// chunk detects; it never writes beyond the output. With any other length it fails or returns the
// same bytes.
TEST_P(Codecs, DamageStaysWithinTheOutputAndTruncationIsRefused) {
  constexpr size_t kGuard = 4096;
  const Bytes plain = text_bytes(8192), guard(kGuard, std::byte{0xa5});
  Bytes stored(plain.size()), room(kGuard + plain.size() + kGuard, std::byte{0xa5});
  const auto back = std::span(room).subspan(kGuard, plain.size());
  const size_t used = *codec_.compress({GetParam(), 0}, plain, stored);
  stored.resize(used);
  size_t refused = 0;
  for (size_t at = 0; at < used; at++) {
    const std::byte whole = std::exchange(stored[at], stored[at] ^ std::byte{0x41});
    refused += !codec_.decompress(GetParam(), stored, back).ok();
    stored[at] = whole;
    ASSERT_TRUE(std::ranges::equal(std::span(room).first(kGuard), guard)) << at;
    ASSERT_TRUE(std::ranges::equal(std::span(room).last(kGuard), guard)) << at;
  }
  EXPECT_GT(refused, 0u);
  for (size_t length = 0; length < used; length++) {
    std::ranges::fill(back, std::byte{0});
    const bool ok = codec_.decompress(GetParam(), std::span(stored).first(length), back).ok();
    ASSERT_TRUE(!ok || std::ranges::equal(back, plain)) << length;
  }
  stored.back() = std::byte{1};
  EXPECT_THAT(codec_.decompress(GetParam(), stored, back).error().message(),
              testing::HasSubstr("padding"));
}

TEST_P(Codecs, AnotherSizeIsRefused) {
  const Bytes plain = text_bytes(16384);
  Bytes stored(plain.size());
  stored.resize(*codec_.compress({GetParam(), 0}, plain, stored));
  for (const size_t size : {16384 - 1, 16384 + 1, 1}) {
    Bytes back(size);
    EXPECT_FALSE(codec_.decompress(GetParam(), stored, back).ok()) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Codecs, testing::Values(Encoding::kZstd, Encoding::kLz4));

TEST(Codec, ItsMemoryDependsOnMethodAndLevel) {
  constexpr size_t kChunk = 256u << 10;
  EXPECT_EQ(codec_bytes({}, kChunk), 0u);
  EXPECT_EQ(codec_bytes({Encoding::kLz4, 0}, kChunk), 0u);
  const size_t fast = codec_bytes({Encoding::kZstd, 1}, kChunk);
  EXPECT_GT(fast, 0u);
  EXPECT_GT(codec_bytes({Encoding::kZstd, 19}, kChunk), fast);
}

TEST(Codec, NothingIsCompressedUnlessRequested) {
  Codec codec;
  Bytes stored(65536);
  EXPECT_FALSE(codec.compress({}, text_bytes(65536), stored));
}

}  // namespace
}  // namespace amdgpu_criu::pipeline
