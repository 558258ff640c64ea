// SPDX-License-Identifier: GPL-2.0
// Files whose pages are in memory. Threads that copy these pages are faster than direct I/O.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/fd.h"

namespace amdgpu_criu::pipeline {

// True if the file system has its files in memory: tmpfs, of which memfds are, hugetlbfs and DAX.
bool is_memory(int fd);
// True if the page cache has most of the first `bytes`. Linux has cachestat(2) since 6.5. Without
// it, files count as not cached.
bool is_cached(int fd, uint64_t bytes);

// A file in memory that several threads write. A system call would lock the whole file: threads
// write its pages through a mapping.
class MemoryFile {
 public:
  // Fewer threads are faster by system calls, which clear no pages.
  static constexpr unsigned kFewestMappingThreads = 4;

  // If that many threads need a mapping, the file is extended to `bytes`.
  MemoryFile(int fd, uint64_t bytes, unsigned threads);

  bool is_mapped() const { return mapping_.size() > 0; }
  // Of the mapping; empty: there is none.
  std::span<std::byte> bytes() const { return {mapping_.data(), mapping_.size()}; }
  // Any thread may call it, at places that differ. The bytes may be outside of the mapping. Pages
  // that cannot be allocated are an error, also in the mapping, and so is the end of the file.
  // name: of the file, for errors.
  Status write(uint64_t offset, std::span<std::byte> bytes, const std::string& name) const;

 private:
  // Returns the number of bytes that were written, from the first on.
  size_t write_mapped(uint64_t offset, std::span<std::byte> bytes) const;

  int fd_;
  Mapping mapping_;
};

}  // namespace amdgpu_criu::pipeline
