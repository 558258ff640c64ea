// SPDX-License-Identifier: GPL-2.0
#include "restore/verify_contents.h"

#include <algorithm>

#include "base/log.h"
#include "image/checksum.h"

namespace amdgpu_criu::restore {
namespace {

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

  // Returns the number of objects that were compared, at least one, or 0: the GPU computes no
  // hashes. An error means that it may have lost what it was filled with.
  Result<size_t> verify_some(std::span<const image::Object* const> objects,
                             const gpu::ImportObject& import) {
    gpu::HashBatch batch(chunk_bytes_);
    while (batch.size() < objects.size() && batch.has_room()) {
      const image::Object& object = *objects[batch.size()];
      batch.add(TRY(import(object.object_id, object.size)), object.size);
    }
    std::vector<gpu::ChunkHash> hashes;
    const Status status = engine_.hash(batch.bos(), chunk_bytes_, [&](auto some) {
      hashes.insert(hashes.end(), some.begin(), some.end());
      return true;
    });
    if (!status.ok()) {
      if (gpu::is_gpu_lost(status.error())) return status.error();
      log_info("restored GPU memory is not compared: {}", status.error().message());
      return size_t{0};
    }
    std::span<const gpu::ChunkHash> left = hashes;
    for (const image::Object* object : objects.first(batch.size())) {
      TRY(compare(*object, left.first(object->chunks.size())));
      left = left.subspan(object->chunks.size());
    }
    return batch.size();
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
                         object.object_id, chunk.size, uint64_t{chunk_bytes_} * i);
    }
    return {};
  }

  gpu::Engine& engine_;
  uint32_t chunk_bytes_;
  image::HashesOfZeros zeros_;
};

uint32_t largest_chunk(const Objects& objects) {
  uint32_t bytes = 0;
  for (const image::Object* object : objects)
    for (const image::Chunk& chunk : object->chunks) bytes = std::max(bytes, chunk.size);
  return bytes;
}

// Those that have the hashes that the GPU computes.
Objects hashed_of(const Objects& objects, uint32_t chunk_bytes) {
  Objects hashed;
  std::ranges::copy_if(objects, std::back_inserter(hashed), [&](const image::Object* object) {
    return !object->hashes.empty() && has_chunks_of(*object, chunk_bytes);
  });
  return hashed;
}

}  // namespace

bool can_compare(gpu::Engine& engine, const Objects& objects) {
  const uint32_t chunk_bytes = largest_chunk(objects);
  return hashed_of(objects, chunk_bytes).size() == objects.size() &&
         engine.hash({}, chunk_bytes, [](auto) { return true; }).ok();
}

Result<uint64_t> verify_contents(gpu::Engine& engine, const Objects& objects,
                                 const gpu::ImportObject& import) {
  const uint32_t chunk_bytes = largest_chunk(objects);
  const Objects hashed = hashed_of(objects, chunk_bytes);
  Verifier verifier(engine, chunk_bytes);
  uint64_t bytes = 0;
  for (std::span<const image::Object* const> left = hashed; !left.empty();) {
    const size_t some = TRY(verifier.verify_some(left, import));
    if (some == 0) return 0;
    for (const image::Object* object : left.first(some)) bytes += object->size;
    left = left.subspan(some);
  }
  return bytes;
}

}  // namespace amdgpu_criu::restore
