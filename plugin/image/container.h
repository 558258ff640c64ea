// SPDX-License-Identifier: GPL-2.0
// The outer form of every image file: a header, and metadata that the header points to. Files of
// kind kContents have data between the two. Every byte of a file is covered by some check:
// header by its own checksum, metadata by the one in the header, data by the chunk index in the
// metadata, and nothing else may be there but zeros up to kDataStart.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "image/checksum.h"

namespace amdgpu_criu::image {

// Fills `to`; a file that ends before is truncated. Errors name the file.
Status read_at(const Fd& file, const std::string& name, uint64_t offset, std::span<std::byte> to);

// The names in the directory for which `wanted` is true, in order.
Result<std::vector<std::string>> list_names(int directory,
                                            const std::function<bool(std::string_view)>& wanted);

using Bytes = std::span<const std::byte>;

// The image of that name is not whole, or contradicts itself.
Error bad(const std::string& name, const std::string& why);

enum class Kind : uint32_t { kProcess = 1, kFile = 2, kContents = 3, kRender = 4 };

// Of what is written; and the oldest that is read.
inline constexpr uint32_t kFormat = 2;
inline constexpr uint32_t kOldestFormat = 1;
// Data starts aligned for direct I/O.
inline constexpr uint64_t kDataStart = 4096;
// Bounds what a damaged or hostile header can make a reader allocate. Nothing larger is written.
inline constexpr uint64_t kMaxMetadata = 1ull << 30;
// A reader needs staging memory for whole chunks.
inline constexpr uint32_t kMaxChunk = 64u << 20;

// As it stands in the file, little-endian. All formats begin with magic, format and end with sum.
struct Header {
  char magic[8];
  uint32_t format;
  uint32_t kind;
  uint64_t metadata_offset;
  uint64_t metadata_size;
  Sum metadata_sum;
  uint64_t reserved;
  uint64_t sum;  // of the bytes before it
};
static_assert(sizeof(Header) == 64);

// Writes a file whole; on error nothing is left of it.
Status write_metadata_file(int directory, const std::string& name, Kind kind, Bytes metadata);

// A contents file in the making. Removed again unless finish() succeeds. The header is written
// last, so a file that was cut short never looks whole.
class ContentsWriter {
 public:
  static Result<ContentsWriter> create(int directory, const std::string& name);
  ContentsWriter(ContentsWriter&& other) noexcept;
  ContentsWriter& operator=(ContentsWriter&&) = delete;
  ~ContentsWriter();

  // Returns where in the file the bytes went.
  Result<uint64_t> append(Bytes bytes);
  // As append(), but the caller writes them, until finish(), through fd(), which may have O_DIRECT.
  uint64_t reserve(uint64_t bytes) { return std::exchange(end_, end_ + bytes); }
  int fd() const { return file_.get(); }
  Status finish(Bytes metadata);
  const std::string& name() const { return name_; }

 private:
  ContentsWriter(int directory, std::string name, Fd file)
      : directory_(directory), name_(std::move(name)), file_(std::move(file)) {}

  int directory_;
  std::string name_;
  Fd file_;
  uint64_t end_ = kDataStart;
  bool finished_ = false;
};

// A file whose header and metadata have been found whole.
struct Opened {
  std::string name;
  Fd file;
  uint64_t data_end = 0;
  Sum metadata_sum{};
  std::vector<std::byte> metadata;

  uint32_t format = 0;

  // Errors name the file.
  Status read(uint64_t offset, std::span<std::byte> to) const;
};
Result<Opened> open_file(int directory, const std::string& name, Kind kind);

}  // namespace amdgpu_criu::image
