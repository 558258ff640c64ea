// SPDX-License-Identifier: GPL-2.0
#include "restore/verify_contents.h"

#include <algorithm>

#include "base/log.h"
#include "image/checksum.h"

namespace amdgpu_criu::restore {
namespace {

// These are imported together.
constexpr size_t kMaxVerified = 256;

// All chunks of a file have one size, except the last one of an object.
bool has_chunks_of(const image::Object& object, uint64_t chunk_bytes) {
  return std::ranges::all_of(object.chunks, [&](const image::Chunk& chunk) {
    return chunk.size == chunk_bytes || &chunk == &object.chunks.back();
  });
}

class Verifier {
 public:
  Verifier(gpu::Engine& engine, uint32_t chunk_bytes)
      : engine_(engine), chunk_bytes_(chunk_bytes) {}

  // False: the GPU computes no hashes.
  Result<bool> verify(std::span<const image::Object* const> objects,
                      const gpu::ImportObject& import) {
    std::vector<std::shared_ptr<gpu::Imported>> imported;
    std::vector<gpu::Hashed> bos;
    for (const image::Object* object : objects) {
      imported.push_back(TRY(import(object->object_id, object->size)));
      bos.push_back({imported.back().get(), object->size});
    }
    const auto hashes = engine_.hash(bos, chunk_bytes_);
    if (!hashes.ok()) {
      log_info("restored GPU memory is not compared: {}", hashes.error().message());
      return false;
    }
    auto next = hashes->begin();
    for (const image::Object* object : objects) {
      TRY(compare(*object, std::span(next, object->chunks.size())));
      next += static_cast<std::ptrdiff_t>(object->chunks.size());
    }
    return true;
  }

 private:
  Status compare(const image::Object& object, std::span<const gpu::ChunkHash> hashes) {
    for (size_t i = 0; i < object.chunks.size(); i++) {
      const image::Chunk& chunk = object.chunks[i];
      const image::Hash& expected =
          chunk.encoding == pipeline::Encoding::kZeros ? zeros_.of(chunk.size) : object.hashes[i];
      if (hashes[i] != expected)
        return Error::of(EIO,
                         "object {}: {} bytes at {:#x} of the restored GPU memory differ from the "
                         "image, whose checksum is right: the GPU or its link is faulty",
                         object.object_id, chunk.size, i * chunk_bytes_);
    }
    return {};
  }

  gpu::Engine& engine_;
  uint64_t chunk_bytes_;
  image::HashesOfZeros zeros_;
};

}  // namespace

Result<uint64_t> verify_contents(gpu::Engine& engine, const Objects& objects,
                                 const gpu::ImportObject& import) {
  uint32_t chunk_bytes = 0;
  for (const image::Object* object : objects)
    for (const image::Chunk& chunk : object->chunks)
      chunk_bytes = std::max(chunk_bytes, chunk.size);
  Objects hashed;
  std::ranges::copy_if(objects, std::back_inserter(hashed), [&](const image::Object* object) {
    return !object->hashes.empty() && has_chunks_of(*object, chunk_bytes);
  });
  Verifier verifier(engine, chunk_bytes);
  uint64_t bytes = 0;
  for (std::span<const image::Object* const> left = hashed; !left.empty();) {
    const auto some = left.first(std::min(left.size(), kMaxVerified));
    if (!TRY(verifier.verify(some, import))) return 0;
    for (const image::Object* object : some) bytes += object->size;
    left = left.subspan(some.size());
  }
  return bytes;
}

}  // namespace amdgpu_criu::restore
