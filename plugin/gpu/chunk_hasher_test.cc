// SPDX-License-Identifier: GPL-2.0
// Runs on the first render node of the machine, real or software; skipped if there is none.
#include <amdgpu_drm.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/drm.h"
#include "gpu/engine.h"
#include "image/checksum.h"

namespace amdgpu_criu::gpu {
namespace {

constexpr size_t kKib = 1024;
constexpr size_t kMaxBytes = 1040 * kKib;

class ChunkHasher : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    auto node = Fd::open("/dev/dri/renderD128", O_RDWR);
    if (!node.ok()) GTEST_SKIP() << "needs an AMD GPU: " << node.error().message();
    node_ = std::move(*node);
    device_ = std::move(*open_device(node_));
    engine_ = std::move(*make_sdma_engine(*node_.duplicate(), {1, kMaxBytes}));
  }

  // Memory of the GPU, and what was written to it.
  struct Filled {
    std::unique_ptr<Imported> bo;
    std::vector<std::byte> bytes;
  };
  Filled fill(size_t size, unsigned seed) {
    const DrmBo bo = std::move(*allocate_bo(device_.get(), GetParam(), 0, size));
    uint32_t fd = 0;
    EXPECT_EQ(amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_dma_buf_fd, &fd), 0);
    const Fd dmabuf(static_cast<int>(fd));
    Filled filled{std::move(*engine_->import(dmabuf, size)), std::vector<std::byte>(size)};
    for (size_t i = 0; i < size; i++) filled.bytes[i] = static_cast<std::byte>(i * seed + i / 4093);
    std::ranges::copy(filled.bytes, engine_->staging(0).begin());
    const Piece all{filled.bo.get(), 0, size};
    EXPECT_TRUE(engine_->start_write(0, {&all, 1}).ok());
    EXPECT_TRUE(engine_->wait(0).ok());
    return filled;
  }

  static void append_hashes(std::span<const std::byte> bytes, size_t chunk,
                            std::vector<ChunkHash>& hashes) {
    for (size_t at = 0; at < bytes.size(); at += chunk)
      hashes.push_back(image::strong_hash(bytes.subspan(at, std::min(chunk, bytes.size() - at))));
  }

  Fd node_;
  DrmDevice device_;
  Result<std::vector<ChunkHash>> hashes_of(std::span<const Hashed> bos, uint32_t chunk_bytes) {
    std::vector<ChunkHash> hashes;
    TRY(engine_->hash(bos, chunk_bytes, [&](std::span<const ChunkHash> some) {
      hashes.insert(hashes.end(), some.begin(), some.end());
      return true;
    }));
    return hashes;
  }

  std::unique_ptr<Engine> engine_;
};

// Chunks of one leaf, of a tree that is not complete, and of more leaves than a work-group has
// items.
TEST_P(ChunkHasher, ComputesWhatTheCpuComputes) {
  const Filled filled = fill(kMaxBytes, 7);
  const Hashed all{filled.bo.get(), kMaxBytes};
  for (const size_t kib : {12, 260, 65536}) {
    std::vector<ChunkHash> expected;
    append_hashes(filled.bytes, kib * kKib, expected);
    const auto hashes = hashes_of({&all, 1}, static_cast<uint32_t>(kib * kKib));
    ASSERT_TRUE(hashes.ok()) << kib << " KiB: " << hashes.error().message();
    EXPECT_EQ(*hashes, expected) << kib << " KiB";
  }
}

// More BOs than one submission takes, and of all sizes.
TEST_P(ChunkHasher, HashesBosInTheirOrder) {
  std::vector<Filled> filled;
  std::vector<Hashed> bos;
  std::vector<ChunkHash> expected;
  constexpr size_t kChunk = 64 * kKib;
  for (unsigned i = 0; i < 40; i++) {
    filled.push_back(fill(4 * kKib * (1 + i * i % 37), i));
    bos.push_back({filled[i].bo.get(), filled[i].bytes.size()});
    append_hashes(filled[i].bytes, kChunk, expected);
  }
  const auto hashes = hashes_of(bos, kChunk);
  ASSERT_TRUE(hashes.ok()) << hashes.error().message();
  EXPECT_EQ(*hashes, expected);
}

// A change between two calls is seen: nothing of the first call is in a cache.
TEST_P(ChunkHasher, SeesWhatHasChanged) {
  Filled filled = fill(256 * kKib, 3);
  const Hashed all{filled.bo.get(), filled.bytes.size()};
  ASSERT_TRUE(hashes_of({&all, 1}, 256 * kKib).ok());
  filled.bytes[200 * kKib] ^= std::byte{1};
  std::ranges::copy(filled.bytes, engine_->staging(0).begin());
  const Piece piece{filled.bo.get(), 0, filled.bytes.size()};
  ASSERT_TRUE(engine_->start_write(0, {&piece, 1}).ok());
  ASSERT_TRUE(engine_->wait(0).ok());
  const auto hashes = hashes_of({&all, 1}, 256 * kKib);
  ASSERT_TRUE(hashes.ok()) << hashes.error().message();
  EXPECT_EQ(*hashes, std::vector{ChunkHash(image::strong_hash(filled.bytes))});
}

TEST_P(ChunkHasher, RefusesWhatItCannotHash) {
  const Filled filled = fill(4 * kKib, 5);
  for (const Hashed bo : {Hashed{filled.bo.get(), 8 * kKib}, Hashed{filled.bo.get(), 100}})
    EXPECT_EQ(hashes_of({&bo, 1}, 4 * kKib).error().code(), ENOTSUP);
}

TEST_P(ChunkHasher, RefusesChunksThatAreTooLargeOrNotWholeKib) {
  const Filled filled = fill(4 * kKib, 5);
  const Hashed bo{filled.bo.get(), 4 * kKib};
  for (const uint32_t chunk : {0u, 1000u, 65u << 20})
    EXPECT_EQ(hashes_of({&bo, 1}, chunk).error().code(), ENOTSUP);
}

INSTANTIATE_TEST_SUITE_P(Heaps, ChunkHasher,
                         testing::Values(AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT));

}  // namespace
}  // namespace amdgpu_criu::gpu
