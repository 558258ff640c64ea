// SPDX-License-Identifier: GPL-2.0
// The chunks of an earlier dump, by content.
#pragma once

#include <vector>

#include "image/set.h"

namespace amdgpu_criu::dump {

class Earlier {
 public:
  // From the directory that the link "parent" (CRIU's --prev-images-dir) points to. Empty if there
  // is none, or if it has no hashes.
  static Result<Earlier> load(const image::Directory& directory);
  // True if there is an earlier dump of GPU memory. amdgpu-criu pre-dump makes one, criu pre-dump
  // does not.
  bool has_contents() const { return has_contents_; }
  bool has_hashes() const { return has_hashes_; }
  // True if it has hashes that an earlier version of the plugin wrote.
  size_t size() const { return chunks_.size(); }

  const image::Chunk* find(const image::Hash& hash, uint32_t size) const;
  // The files of the chunks that were found here; Chunk::source counts them from 1.
  const std::vector<image::Source>& sources() const { return sources_; }

 private:
  void add(const image::Set::ContentsFile& file);
  uint32_t number_of(const image::Source& source);

  // A hash table would take half as much memory again.
  struct Entry {
    image::Hash hash;
    image::Chunk chunk;
  };
  std::vector<Entry> chunks_;  // sorted by hash, each hash once
  std::vector<image::Source> sources_;
  bool has_contents_ = false;
  bool has_hashes_ = false;
};

}  // namespace amdgpu_criu::dump
