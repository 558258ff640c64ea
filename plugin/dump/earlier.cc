// SPDX-License-Identifier: GPL-2.0
#include "dump/earlier.h"

#include <algorithm>

#include "image/chunk_files.h"

namespace amdgpu_criu::dump {

namespace {

// With a check of the files that it refers to: the new dump would need them, too.
Result<std::vector<image::Set::ContentsFile>> load_complete(const image::Directory& directory) {
  auto files = TRY(image::load_contents(directory));
  for (const auto& file : files)
    if (!file.contents.sources.empty()) TRY(image::ChunkFiles::open(directory, file));
  return files;
}

}  // namespace

Result<Earlier> Earlier::load(const image::Directory& directory) {
  Earlier earlier;
  auto parent = Fd::openat(directory.fd, image::kParent, O_RDONLY | O_DIRECTORY);
  if (!parent.ok()) {
    if (parent.error().code() == ENOENT) return earlier;
    return std::move(parent).error().within("the earlier dump");
  }
  auto files = load_complete({parent->get(), directory.key});
  if (!files.ok()) return Error(files.error()).within("the earlier dump");
  earlier.has_contents_ = !files->empty();
  // A chunk of a large dump is in memory once.
  for (auto& file : *files) {
    earlier.add(file);
    file = {};
  }
  auto& chunks = earlier.chunks_;
  std::ranges::sort(chunks, {}, &Entry::hash);
  const auto again = std::ranges::unique(chunks, {}, &Entry::hash);
  chunks.erase(again.begin(), again.end());
  return earlier;
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

const image::Chunk* Earlier::find(const image::Hash& hash, uint32_t size) const {
  const auto found = std::ranges::lower_bound(chunks_, hash, {}, &Entry::hash);
  if (found == chunks_.end() || found->hash != hash || found->chunk.size != size) return nullptr;
  return &found->chunk;
}

}  // namespace amdgpu_criu::dump
