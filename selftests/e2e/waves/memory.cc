// SPDX-License-Identifier: GPL-2.0
#include "waves/memory.h"

#include <algorithm>
#include <cstring>

#include "image/chunk_files.h"

namespace amdgpu_criu {
namespace {

using pipeline::Encoding;

Result<std::vector<std::byte>> read_chunk(const image::ChunkFiles& files,
                                          const image::Object& object, const image::Chunk& chunk) {
  std::vector<std::byte> plain(chunk.size);
  if (chunk.encoding == Encoding::kZeros) return plain;
  if (chunk.encoding == Encoding::kPlain) {
    TRY(files.of(chunk).read(chunk.offset, plain));
    return plain;
  }
  std::vector<std::byte> stored(chunk.stored());
  TRY(files.of(chunk).read(chunk.offset, stored));
  pipeline::Codec codec;
  if (const Status status = codec.decompress(chunk.encoding, stored, plain); !status.ok())
    return files.damaged(object, chunk, status.error().message());
  return plain;
}

Status copy_part(const image::ChunkFiles& files, const image::Object& object, uint64_t from,
                 std::span<std::byte> to) {
  uint64_t begin = 0;
  for (const image::Chunk& chunk : object.chunks) {
    const uint64_t first = std::max(begin, from);
    const uint64_t last = std::min(begin + chunk.size, from + to.size());
    if (first < last) {
      const auto plain = TRY(read_chunk(files, object, chunk));
      memcpy(&to[first - from], &plain[first - begin], last - first);
    }
    begin += chunk.size;
  }
  return {};
}

}  // namespace

Status ImageMemory::read_object(uint64_t object_id, uint64_t from, std::span<std::byte> to) const {
  for (const auto& file : set_.contents())
    for (const image::Object& object : file.contents.objects) {
      if (object.object_id != object_id) continue;
      const auto files = TRY(image::ChunkFiles::open(directory_, file));
      return copy_part(files, object, from, to);
    }
  return Error::of(ENOENT, "the images have no contents of object {}", object_id);
}

Status ImageMemory::read(uint64_t address, std::span<std::byte> to) const {
  for (const kernel::Bo& bo : process_.bos)
    if (bo.flags & AMDGPU_CRIU_BO_CONTENTS && address >= bo.va && address - bo.va < bo.size &&
        to.size() <= bo.size - (address - bo.va))
      return read_object(bo.object_id, address - bo.va, to);
  return pages_.read(address, to);
}

}  // namespace amdgpu_criu
