// SPDX-License-Identifier: GPL-2.0
// The common format of all image files: a header, and metadata that the header points to. Files of
// kind kContents have data between the two. Every byte of a file is checked: the header by its own
// checksum, metadata by the checksum in the header, data by the chunk index in the metadata. All
// other bytes up to kDataStart must be zero.
//
// In encrypted files the metadata are the file's salt, their tag and their encrypted bytes, and
// data are encrypted by chunks, whose tags are in the index. The tag of the metadata proves the
// header, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/key.h"
#include "base/result.h"
#include "image/checksum.h"
#include "image/file_cipher.h"

namespace amdgpu_criu::image {

// Fills `to`. A file that ends earlier is truncated, which is an error. Errors name the file.
Status read_at(const Fd& file, const std::string& name, uint64_t offset, std::span<std::byte> to);

// Hashes the first `size` bytes, and calls `done` with the size of each block. Errors as in
// read_at().
Result<Hash> hash_file(const Fd& file, const std::string& name, uint64_t size,
                       const std::function<void(uint64_t)>& done);

// A directory of images, which others own, and the key of all its files. Without one, no file may
// be encrypted; with one, each must be, because any user could have written one that is not.
struct Directory {
  // Most directories have no key.
  Directory(int descriptor, Key its_key = {}) : fd(descriptor), key(std::move(its_key)) {}
  int fd;
  Key key;
};

// The names in the directory for which `wanted` is true, in order.
Result<std::vector<std::string>> list_names(int directory,
                                            const std::function<bool(std::string_view)>& wanted);

using Bytes = std::span<const std::byte>;

// The image of that name is incomplete or inconsistent.
Error bad(const std::string& name, const std::string& why);

enum class Kind : uint32_t { kProcess = 1, kFile = 2, kContents = 3, kRender = 4 };

// The formats that are written and read. Those before 3 had another index of chunks.
inline constexpr uint32_t kFormat = 3;
inline constexpr uint32_t kEncryptedFormat = 4;
// Data starts aligned for direct I/O.
inline constexpr uint64_t kDataStart = 4096;
// Bounds what a damaged or hostile header can make a reader allocate. Nothing larger is written.
inline constexpr uint64_t kMaxMetadata = 1ull << 30;
// A reader needs staging memory for whole chunks.
inline constexpr uint32_t kMaxChunk = 64u << 20;

// The layout in the file, little-endian. All formats begin with magic and format, and end with sum.
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

// Writes a complete file. After an error the file is removed.
Status write_metadata_file(const Directory& directory, const std::string& name, Kind kind,
                           Bytes metadata);

// Writes a contents file, and removes it like that unless finish() succeeds. The header is written
// last, so an incomplete file is never valid.
class ContentsWriter {
 public:
  static Result<ContentsWriter> create(const Directory& directory, const std::string& name);
  ContentsWriter(ContentsWriter&& other) noexcept;
  ContentsWriter& operator=(ContentsWriter&&) = delete;
  ~ContentsWriter();

  // Allocates disk space for that many bytes of data, because writes that extend a file wait for
  // each other. finish() frees what was not used.
  Status allocate(uint64_t bytes);
  // Returns the place of the bytes in the file: end().
  Result<uint64_t> append(Bytes bytes);
  uint64_t end() const { return end_; }
  // As append(), but the caller writes the bytes before finish() through fd(), which may have
  // O_DIRECT.
  uint64_t reserve(uint64_t bytes) { return std::exchange(end_, end_ + bytes); }
  int fd() const { return file_.get(); }
  Status finish(Bytes metadata);
  const std::string& name() const { return name_; }
  // With which the caller encrypts data for their places in the file; null: they are not encrypted.
  const FileCipher* cipher() const { return cipher_ ? &*cipher_ : nullptr; }

 private:
  ContentsWriter(int directory, std::string name, Fd file, std::optional<FileCipher> cipher)
      : directory_(directory),
        name_(std::move(name)),
        file_(std::move(file)),
        cipher_(std::move(cipher)) {}

  int directory_;
  std::string name_;
  Fd file_;
  std::optional<FileCipher> cipher_;
  uint64_t end_ = kDataStart;
  bool finished_ = false;
};

// A file whose header was verified.
struct Opened {
  std::string name;
  Fd file;
  uint64_t data_end = 0;
  uint64_t metadata_size = 0;  // in the file
  Sum metadata_sum{};
  std::vector<std::byte> metadata;  // decrypted
  uint32_t format = 0;
  std::optional<FileCipher> cipher;

  // Errors name the file.
  Status read(uint64_t offset, std::span<std::byte> to) const;
};
// Its metadata have been found whole, too.
Result<Opened> open_file(const Directory& directory, const std::string& name, Kind kind);
// Without its metadata.
Result<Opened> open_data(const Directory& directory, const std::string& name, Kind kind);

}  // namespace amdgpu_criu::image
