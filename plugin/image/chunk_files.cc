// SPDX-License-Identifier: GPL-2.0
#include "image/chunk_files.h"

#include "pipeline/io_queue.h"
#include "pipeline/memory_file.h"

namespace amdgpu_criu::image {

using pipeline::Encoding;

Result<ChunkFiles> ChunkFiles::open(const Directory& directory, const Set::ContentsFile& file) {
  ChunkFiles files;
  files.files_.push_back(TRY(file.open(directory)));
  TRY(files.open_sources(directory, file));
  TRY(files.check_places(file));
  for (const Opened& one : files.files_)
    files.in_memory_.push_back(pipeline::is_memory(one.file.get()) ||
                               pipeline::is_cached(one.file.get(), one.data_end));
  return files;
}

Status ChunkFiles::open_sources(const Directory& directory, const Set::ContentsFile& file) {
  for (const Source& source : file.contents.sources) {
    const std::string path = path_of(source);
    auto opened = open_data(directory, path, Kind::kContents);
    const auto needed_by = formatted("{} is of an incremental dump and needs it", file.name);
    if (!opened.ok()) return std::move(opened).error().within(needed_by);
    if (opened->metadata_sum != source.metadata_sum)
      return Error::of(
          EBADMSG,
          "image {}: is not the file that it was when {} was written: the earlier dump "
          "was changed or replaced",
          path, file.name);
    files_.push_back(std::move(*opened));
  }
  return {};
}

Status ChunkFiles::check_places(const Set::ContentsFile& file) const {
  for (const Object& object : file.contents.objects)
    for (const Chunk& chunk : object.chunks) {
      const uint64_t end = of(chunk).data_end;
      if (chunk.source != 0 &&
          (chunk.offset < kDataStart || chunk.offset > end || chunk.stored() > end - chunk.offset))
        return Error::of(EBADMSG, "image {}: a chunk of object {} is not in {}", file.name,
                         object.object_id, of(chunk).name);
    }
  return {};
}

void ChunkFiles::use_direct() {
  for (size_t i = 0; i < files_.size(); i++) {
    const Opened& file = files_[i];
    if (in_memory_[i]) continue;
    (void)pipeline::set_direct(file.file.get(), true);
    direct_.push_back(&file);
  }
}

const std::string* ChunkFiles::find_given_up_direct() const {
  for (const Opened* file : direct_)
    if (!pipeline::is_direct(file->file.get())) return &file->name;
  return nullptr;
}

Error ChunkFiles::damaged(const Object& object, const Chunk& chunk, const std::string& why) const {
  return Error::of(EBADMSG,
                   "image {}: contents of object {} are damaged (chunk at {:#x}, {:#x} bytes: {})",
                   of(chunk).name, object.object_id, chunk.offset, chunk.stored(), why);
}

Status ChunkFiles::decrypt(const Object& object, const Chunk& chunk,
                           std::span<std::byte> stored) const {
  const auto& cipher = of(chunk).cipher;
  if (!cipher) return {};
  const Status status = cipher->decrypt(chunk.offset, stored, chunk.sum);
  if (!status.ok()) return damaged(object, chunk, status.error().message());
  return {};
}

Status ChunkFiles::check(const Object& object, const Chunk& chunk, Bytes plain) const {
  if (of(chunk).cipher || checksum(plain) == chunk.sum) return {};
  return damaged(object, chunk, "checksum does not match");
}

Status ChunkFiles::verify(const Object& object, const std::function<void(uint64_t)>& done) const {
  ChunkReader reader;
  for (const Chunk& chunk : object.chunks) {
    done(chunk.size);
    TRY(reader.read(*this, object, chunk));
  }
  return {};
}

Result<std::span<std::byte>> ChunkReader::read(const ChunkFiles& files, const Object& object,
                                               const Chunk& chunk) {
  stored_.clear();
  if (chunk.encoding == Encoding::kZeros) return std::span(stored_);
  stored_.resize(chunk.stored());
  TRY(files.of(chunk).read(chunk.offset, stored_));
  TRY(files.decrypt(object, chunk, stored_));
  Bytes plain = stored_;
  if (chunk.encoding != Encoding::kPlain) {
    plain_.resize(chunk.size);
    const Status status = codec_.decompress(chunk.encoding, stored_, plain_);
    if (!status.ok()) return files.damaged(object, chunk, status.error().message());
    plain = plain_;
  }
  TRY(files.check(object, chunk, plain));
  return std::span(stored_);
}

}  // namespace amdgpu_criu::image
