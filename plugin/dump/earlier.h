// SPDX-License-Identifier: GPL-2.0
// The chunks of an earlier dump, by what is in them.
#pragma once

#include <unordered_map>
#include <vector>

#include "image/set.h"

namespace amdgpu_criu::dump {

class Earlier {
 public:
  // From the directory that CRIU's --prev-images-dir has made "parent" of this one. Empty if there
  // is none, or if it holds no hashes.
  static Result<Earlier> load(int directory);
  // There is an earlier dump of GPU memory; criu pre-dump makes none, amdgpu-criu pre-dump does.
  bool has_contents() const { return has_contents_; }
  bool has_hashes() const { return has_hashes_; }
  // Those that an earlier version of the plugin wrote.
  bool has_other_hashes() const { return has_other_hashes_; }
  size_t size() const { return chunks_.size(); }

  const image::Chunk* find(const image::Hash& hash, uint32_t size) const;
  // Those that chunks found here are in; Chunk::source counts them from 1.
  const std::vector<image::Source>& sources() const { return sources_; }

 private:
  void add(const image::Set::ContentsFile& file);
  uint32_t number_of(const image::Source& source);

  struct HashOfHash {
    size_t operator()(const image::Hash& hash) const;
  };
  std::unordered_map<image::Hash, image::Chunk, HashOfHash> chunks_;
  std::vector<image::Source> sources_;
  bool has_contents_ = false;
  bool has_hashes_ = false;
  bool has_other_hashes_ = false;
};

}  // namespace amdgpu_criu::dump
