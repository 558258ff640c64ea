// SPDX-License-Identifier: GPL-2.0
#include "dump/earlier.h"

#include <unistd.h>

#include <algorithm>

#include "image/chunk_files.h"

namespace amdgpu_criu::dump {
namespace {

constexpr char kKept[] = "(index of the earlier dump)";

// The end of a file that has the chunks, and then the sources with their names.
struct KeptEnd {
  uint64_t chunks, sources;
  uint64_t has_contents, has_hashes;
};
struct KeptSource {
  uint32_t depth, name_size;
  image::Sum metadata_sum;
};

template <typename T>
Result<T> read_object(const Fd& file, uint64_t at) {
  T object;
  TRY(image::read_at(file, kKept, at, std::as_writable_bytes(std::span(&object, 1))));
  return object;
}

}  // namespace

Result<Earlier> Earlier::load(const image::Directory& directory) {
  Earlier earlier;
  auto parent = Fd::openat(directory.fd, image::kParent, O_RDONLY | O_DIRECTORY);
  if (!parent.ok()) {
    if (parent.error().code() == ENOENT) return earlier;
    return std::move(parent).error().within("the earlier dump");
  }
  Status added = earlier.add_all({parent->get(), directory.key});
  if (!added.ok()) return std::move(added).error().within("the earlier dump");
  auto& chunks = earlier.chunks_;
  std::ranges::sort(chunks, {}, &Entry::hash);
  const auto again = std::ranges::unique(chunks, {}, &Entry::hash);
  chunks.erase(again.begin(), again.end());
  return earlier;
}

// One file after the other: a chunk of a large dump is in memory once. The files that one refers to
// are checked, because the new dump would need them, too.
Status Earlier::add_all(const image::Directory& directory) {
  return image::for_each_contents(directory, [&](const auto& file) -> Status {
    if (!file.contents.sources.empty()) TRY(image::ChunkFiles::open(directory, file));
    has_contents_ = true;
    add(file);
    return {};
  });
}

uint32_t Earlier::number_of(const image::Source& source) {
  const auto number = static_cast<uint32_t>(std::ranges::find(sources_, source) - sources_.begin());
  if (number == sources_.size()) sources_.push_back(source);
  return number + 1;
}

// If the earlier dump itself refers to a chunk, the new dump refers to the file that has it.
void Earlier::add(const image::Set::ContentsFile& file) {
  size_t hashes = chunks_.size();
  for (const image::Object& object : file.contents.objects) hashes += object.hashes.size();
  chunks_.reserve(hashes);
  const image::Source itself{1, file.name, file.metadata_sum};
  for (const image::Object& object : file.contents.objects) {
    has_hashes_ |= !object.hashes.empty();
    for (size_t i = 0; i < object.hashes.size(); i++) {
      image::Chunk chunk = object.chunks[i];
      if (chunk.encoding == pipeline::Encoding::kZeros) continue;
      image::Source source = itself;
      if (chunk.source > 0) {
        source = file.contents.sources[chunk.source - 1];
        source.depth++;
      }
      if (source.depth > image::kMaxSourceDepth) continue;
      const uint32_t number = number_of(source);
      if (number > image::kMaxSources) continue;
      chunk.source = number;
      chunks_.push_back({object.hashes[i], chunk});
    }
  }
}

Status Earlier::write_to(const Fd& file) const {
  (void)lseek(file.get(), 0, SEEK_SET);
  TRY(write_all(file, std::as_bytes(chunks())));
  for (const image::Source& source : sources_) {
    const KeptSource kept{source.depth, static_cast<uint32_t>(source.name.size()),
                          source.metadata_sum};
    TRY(write_all(file, std::as_bytes(std::span(&kept, 1))));
    TRY(write_all(file, source.name));
  }
  const KeptEnd end{size(), sources_.size(), has_contents_, has_hashes_};
  return write_all(file, std::as_bytes(std::span(&end, 1)));
}

Status Earlier::keep_in(const Fd& file) {
  auto kept = [&]() -> Result<Earlier> {
    TRY(write_to(file));
    return kept_in(file);
  }();
  if (!kept.ok()) {
    (void)!ftruncate(file.get(), 0);
    return std::move(kept).error();
  }
  *this = *std::move(kept);
  return {};
}

Result<Earlier> Earlier::kept_in(const Fd& file) {
  const uint64_t size = lseek(file.get(), 0, SEEK_END);
  const auto end = TRY(read_object<KeptEnd>(file, size - sizeof(KeptEnd)));
  Earlier earlier;
  earlier.has_contents_ = end.has_contents;
  earlier.has_hashes_ = end.has_hashes;
  uint64_t at = end.chunks * sizeof(Entry);
  if (at > 0) earlier.kept_ = TRY(Mapping::map(at, PROT_READ, MAP_SHARED, file.get()));
  for (uint64_t i = 0; i < end.sources; i++) {
    const auto kept = TRY(read_object<KeptSource>(file, at));
    image::Source source{kept.depth, std::string(kept.name_size, 0), kept.metadata_sum};
    TRY(image::read_at(file, kKept, at + sizeof(kept),
                       std::as_writable_bytes(std::span(source.name))));
    at += sizeof(kept) + kept.name_size;
    earlier.sources_.push_back(std::move(source));
  }
  return earlier;
}

const image::Chunk* Earlier::find(const image::Hash& hash, uint32_t size) const {
  const auto chunks = this->chunks();
  const auto found = std::ranges::lower_bound(chunks, hash, {}, &Entry::hash);
  if (found == chunks.end() || found->hash != hash || found->chunk.size != size) return nullptr;
  return &found->chunk;
}

}  // namespace amdgpu_criu::dump
