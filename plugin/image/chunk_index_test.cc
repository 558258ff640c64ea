// SPDX-License-Identifier: GPL-2.0
// The memory that the chunk index takes, as criu-amdgpu(1) states it.
#include "image/records.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "amdgpu_criu.pb-c.h"
#include "image/set.h"
#include "tests/temp_dir.h"

namespace amdgpu_criu::image {
namespace {

std::atomic<size_t> in_use, peak;

void* counted(size_t size) {
  void* memory = malloc(size);
  if (!memory) abort();
  const size_t now = in_use += malloc_usable_size(memory);
  if (now > peak) peak = now;
  return memory;
}
void uncounted(void* memory) noexcept {
  if (memory) in_use -= malloc_usable_size(memory);
  free(memory);
}

// The most memory that `body` needs, beside what was in use before.
template <typename Body>
size_t memory_of(const Body& body) {
  const size_t before = in_use;
  peak = before;
  body();
  return peak - before;
}

constexpr size_t kChunks = 1 << 20;
constexpr uint32_t kChunkBytes = 256 << 10;
constexpr size_t kRest = 1 << 20;  // of the header, the description of the GPU and the like

// All columns have values, and offsets are as long as those of terabytes.
Object compressed(bool hashes) {
  Object object{7, uint64_t{kChunks} * kChunkBytes, {}, {}};
  object.chunks.reserve(kChunks);
  for (uint64_t i = 0; i < kChunks; i++)
    object.chunks.push_back({.offset = (uint64_t{1} << 42) + i * 4096,
                             .source = 200,
                             .size = kChunkBytes,
                             .compressed = 3 << 16,
                             .encoding = pipeline::Encoding::kLz4,
                             .sum = checksum(std::as_bytes(std::span(&i, 1)))});
  if (hashes) object.hashes.resize(kChunks);
  return object;
}

Contents contents_of(Object object) {
  Contents contents;
  contents.dump_id = new_dump_id();
  contents.gpu.gpu_id = 0x11;
  for (int i = 0; i < 200; i++) contents.sources.push_back({1, contents_file_name(i, 0x11), {}});
  contents.objects.push_back(std::move(object));
  return contents;
}

TEST(ChunkIndex, TakesTwiceItsSizeWhileItIsWrittenOrRead) {
  for (const bool hashes : {false, true}) {
    const testing_support::TempDir dir;
    const size_t most = kChunks * (hashes ? 128 : 64) + kRest;
    const size_t saved = memory_of([&] {
      Object object = compressed(hashes);
      auto writer = ContentsWriter::create(dir.fd(), contents_file_name(0, 0x11));
      ASSERT_TRUE(writer.ok() && writer->finish(encode(contents_of(std::move(object)))).ok());
    });
    EXPECT_LE(saved, most) << hashes;
    const size_t loaded = memory_of([&] {
      const auto files = load_contents(dir.fd());
      ASSERT_TRUE(files.ok()) << files.error().message();
      const Object& object = files->at(0).contents.objects.at(0);
      EXPECT_EQ(object.chunks.size(), kChunks);
      EXPECT_EQ(object.hashes.size(), hashes ? kChunks : 0);
      const uint64_t ninth = 9;
      EXPECT_EQ(object.chunks[9].sum, checksum(std::as_bytes(std::span(&ninth, 1))));
    });
    EXPECT_LE(loaded, most) << hashes;
  }
}

TEST(ChunkIndex, FollowsTheMessage) {
  Object object{7, 3 * 4096, {}, {}};
  for (uint32_t i = 0; i < 3; i++)
    object.chunks.push_back({.offset = 4096 * (i + 1), .size = 4096, .sum = {std::byte(i)}});
  object.hashes.resize(3);
  object.hashes[2][31] = std::byte{9};
  const auto encoded = encode(contents_of(object));
  uint64_t size = 0;
  memcpy(&size, encoded.data(), sizeof(size));
  ASSERT_EQ(encoded.size(), sizeof(size) + size + 3 * 32 + 3 * 32);
  AmdgpuCriu__Pb__Contents* message = amdgpu_criu__pb__contents__unpack(
      nullptr, size, reinterpret_cast<const uint8_t*>(encoded.data() + sizeof(size)));
  ASSERT_TRUE(message);
  ASSERT_EQ(message->n_object, 1u);
  EXPECT_EQ(message->n_source, 200u);
  EXPECT_EQ(message->object[0]->num_chunks, 3u);
  EXPECT_TRUE(message->object[0]->hashed);
  const std::byte* const chunk = encoded.data() + sizeof(size) + size + 2 * 32;
  EXPECT_EQ(chunk[1], std::byte{0x30});  // the offset 3 * 4096
  EXPECT_EQ(chunk[16], std::byte{2});    // the checksum
  EXPECT_EQ(encoded.back(), std::byte{9});
  amdgpu_criu__pb__contents__free_unpacked(message, nullptr);
}

}  // namespace
}  // namespace amdgpu_criu::image

void* operator new(size_t size) { return amdgpu_criu::image::counted(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return amdgpu_criu::image::counted(size);
}
void operator delete(void* memory) noexcept { amdgpu_criu::image::uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { amdgpu_criu::image::uncounted(memory); }
