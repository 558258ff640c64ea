// SPDX-License-Identifier: GPL-2.0
#include "image/flatten.h"

#include "image/chunk_files.h"

namespace amdgpu_criu::image {

Result<uint64_t> flatten(const Directory& from, const Set::ContentsFile& file, const Directory& to,
                         const std::function<void(uint64_t)>& done) {
  const auto files = TRY(ChunkFiles::open(from, file));
  auto writer = TRY(ContentsWriter::create(to, file.name));
  ChunkReader reader;
  Contents contents = file.contents;
  uint64_t earlier_bytes = 0;
  for (Object& object : contents.objects)
    for (Chunk& chunk : object.chunks) {
      done(chunk.size);
      if (chunk.encoding == pipeline::Encoding::kZeros) continue;
      const auto stored = TRY(reader.read(files, object, chunk));
      if (const FileCipher* cipher = writer.cipher())
        chunk.sum = cipher->encrypt(writer.end(), stored);
      const uint64_t offset = TRY(writer.append(stored));
      if (chunk.source != 0) earlier_bytes += chunk.stored();
      chunk.source = 0;
      chunk.offset = offset;
    }
  contents.sources.clear();
  TRY(writer.finish(encode(std::move(contents))));
  return earlier_bytes;
}

}  // namespace amdgpu_criu::image
