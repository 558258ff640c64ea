// SPDX-License-Identifier: GPL-2.0
// The files that the chunks of one contents file are in: itself, and contents files of earlier
// dumps.
#pragma once

#include <functional>
#include <vector>

#include "image/set.h"
#include "pipeline/codec.h"

namespace amdgpu_criu::image {

class ChunkFiles {
 public:
  // Refuses a file that is missing or was replaced.
  static Result<ChunkFiles> open(const Directory& directory, const Set::ContentsFile& file);

  // Reads of files that are not in memory go past the page cache, if the file system supports it.
  void use_direct();
  // The first file without direct I/O; null: none.
  const std::string* find_given_up_direct() const;

  const Opened& of(const Chunk& chunk) const { return files_[chunk.source]; }
  // The file is in memory, or was in the page cache when it was opened.
  bool in_memory(const Chunk& chunk) const { return in_memory_[chunk.source]; }
  // Decrypts a chunk of an encrypted file in place; others stay as they are.
  Status decrypt(const Object& object, const Chunk& chunk, std::span<std::byte> stored) const;
  // Compares the chunk's plain bytes with its checksum, unless its tag has proven them.
  Status check(const Object& object, const Chunk& chunk, Bytes plain) const;
  // The error names file, object and chunk.
  Error damaged(const Object& object, const Chunk& chunk, const std::string& why) const;

  // Reads every chunk of the object and compares it with its checksum; the first bad one is the
  // error. Calls `done` with the size of each chunk.
  Status verify(
      const Object& object, const std::function<void(uint64_t)>& done = [](uint64_t) {}) const;

 private:
  Status open_sources(const Directory& directory, const Set::ContentsFile& file);
  Status check_places(const Set::ContentsFile& file) const;

  std::vector<Opened> files_;          // by Chunk::source
  std::vector<bool> in_memory_;        // of each
  std::vector<const Opened*> direct_;  // files to be read past the page cache
};

class ChunkReader {
 public:
  // Returns the chunk as it is in the file, but decrypted, until the next call, if its plain bytes
  // are the right ones. Zeros are in no file: the result is empty.
  Result<std::span<std::byte>> read(const ChunkFiles& files, const Object& object,
                                    const Chunk& chunk);

 private:
  pipeline::Codec codec_;
  std::vector<std::byte> stored_, plain_;
};

}  // namespace amdgpu_criu::image
