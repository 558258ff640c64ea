// SPDX-License-Identifier: GPL-2.0
// The chunks of an earlier dump, by content.
#pragma once

#include <span>
#include <vector>

#include "image/set.h"

namespace amdgpu_criu::dump {

class Earlier {
 public:
  // From the directory that the link "parent" (CRIU's --prev-images-dir) points to. Empty if there
  // is none, or if it has no hashes.
  static Result<Earlier> load(const image::Directory& directory);
  // Moves the chunks to an empty file in memory, from which processes that this one does not fork
  // take it. After an error nothing is there.
  Status keep_in(const Fd& file);
  static Result<Earlier> kept_in(const Fd& file);
  // True if there is an earlier dump of GPU memory. amdgpu-criu pre-dump makes one, criu pre-dump
  // does not.
  bool has_contents() const { return has_contents_; }
  bool has_hashes() const { return has_hashes_; }
  size_t size() const { return chunks().size(); }

  const image::Chunk* find(const image::Hash& hash, uint32_t size) const;
  // The files of the chunks that were found here; Chunk::source counts them from 1.
  const std::vector<image::Source>& sources() const { return sources_; }

 private:
  Status add_all(const image::Directory& directory);
  void add(const image::Set::ContentsFile& file);
  uint32_t number_of(const image::Source& source);

  // A hash table would take half as much memory again.
  struct Entry {
    image::Hash hash;
    image::Chunk chunk;
  };
  // Sorted by hash, each hash once.
  std::span<const Entry> chunks() const {
    if (!kept_.data()) return chunks_;
    return {reinterpret_cast<const Entry*>(kept_.data()), kept_.size() / sizeof(Entry)};
  }
  Status write_to(const Fd& file) const;

  std::vector<Entry> chunks_;
  Mapping kept_;  // of the file; no data: they are in chunks_
  std::vector<image::Source> sources_;
  bool has_contents_ = false;
  bool has_hashes_ = false;
};

}  // namespace amdgpu_criu::dump
