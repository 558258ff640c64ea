// SPDX-License-Identifier: GPL-2.0
#include "image/container.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>

#include "pipeline/io_queue.h"

namespace amdgpu_criu::image {

namespace {

constexpr size_t kHashedBlock = 4u << 20;

struct DirCloser {
  void operator()(DIR* stream) const { closedir(stream); }
};

}  // namespace

Error bad(const std::string& name, const std::string& why) {
  return Error::of(EBADMSG, "image {}: {}", name, why);
}

Status read_at(const Fd& file, const std::string& name, uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(file.get(), to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::system("cannot read image {}", name);
    if (got == 0) return Error::of(EBADMSG, "image {} is truncated", name);
    to = to.subspan(got);
    offset += got;
  }
  return {};
}

Result<Hash> hash_file(const Fd& file, const std::string& name, uint64_t size,
                       const std::function<void(uint64_t)>& done) {
  StrongHasher hasher;
  std::vector<std::byte> block;
  for (uint64_t at = 0; at < size; at += block.size()) {
    block.resize(std::min<uint64_t>(kHashedBlock, size - at));
    TRY(read_at(file, name, at, block));
    hasher.add(block);
    done(block.size());
  }
  return hasher.finish();
}

Result<std::vector<std::string>> list_names(int directory,
                                            const std::function<bool(std::string_view)>& wanted) {
  // A descriptor of its own: reading a directory moves the file position.
  Fd fd = TRY(Fd::openat(directory, ".", O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, DirCloser> stream(fdopendir(fd.get()));
  if (!stream) return Error::system("cannot list the image directory");
  (void)fd.release();
  std::vector<std::string> result;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (!entry) break;
    if (wanted(entry->d_name)) result.emplace_back(entry->d_name);
  }
  if (errno) return Error::system("cannot list the image directory");
  std::ranges::sort(result);
  return result;
}
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'A', 'M', 'D', 'G', 'C', 'R', 'I', 'U'};

Bytes bytes_of(const Header& header) { return std::as_bytes(std::span(&header, 1)); }
uint64_t sum_of(const Header& header) {
  return short_checksum(bytes_of(header).first(offsetof(Header, sum)));
}

// In an encrypted file before the metadata.
struct Seal {
  Salt salt{};
  Sum tag{};
};
static_assert(sizeof(Seal) == 32);

// What the tag of the metadata proves besides them.
Bytes proven(const Header& header) {
  return bytes_of(header).first(offsetof(Header, metadata_sum));
}

// Header and metadata as they are in a file.
struct Ends {
  Header header{};
  std::vector<std::byte> metadata;
};

Ends make_ends(Kind kind, uint64_t offset, Bytes metadata, const FileCipher* cipher) {
  Ends ends;
  Header& header = ends.header;
  memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format = cipher ? kEncryptedFormat : kFormat;
  header.kind = static_cast<uint32_t>(kind);
  header.metadata_offset = offset;
  header.metadata_size = metadata.size() + (cipher ? sizeof(Seal) : 0);
  if (cipher) ends.metadata.resize(sizeof(Seal));
  ends.metadata.insert(ends.metadata.end(), metadata.begin(), metadata.end());
  if (cipher) {
    Seal seal{cipher->salt(), {}};
    seal.tag =
        cipher->encrypt(offset, std::span(ends.metadata).subspan(sizeof(Seal)), proven(header));
    memcpy(ends.metadata.data(), &seal, sizeof(seal));
  }
  header.metadata_sum = checksum(ends.metadata);
  header.sum = sum_of(header);
  return ends;
}

Status write_at(const Fd& file, const std::string& name, uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error::system("cannot write image {}", name);
    if (written == 0) return Error::of(EIO, "cannot write image {}: nothing was written", name);
    bytes = bytes.subspan(written);
    offset += written;
  }
  return {};
}

// Some file systems report a failed write only here.
Status sync_and_close(Fd& file, const std::string& name) {
  if (fdatasync(file.get()) != 0) return Error::system("cannot write image {} to disk", name);
  if (close(file.release()) != 0) return Error::system("cannot close image {}", name);
  return {};
}

Status check_header(const Header& header, const std::string& name, Kind kind, uint64_t size) {
  if (memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    return bad(name, "is not an image of this plugin, or is damaged");
  if (header.sum != sum_of(header))
    return bad(name, "its header is damaged (checksum does not match)");
  if (header.format < kFormat || header.format > kEncryptedFormat)
    return Error::of(EOPNOTSUPP,
                     "image {} is of format {}, which {} version of the plugin wrote; this one "
                     "reads formats {} and {}",
                     name, header.format, header.format < kFormat ? "an earlier" : "a later",
                     kFormat, kEncryptedFormat);
  if (header.kind != static_cast<uint32_t>(kind))
    return bad(name, "has another kind of contents than its name");
  if (header.reserved != 0) return bad(name, "has an unknown header field set");
  if (header.metadata_size > kMaxMetadata || header.metadata_offset > size ||
      header.metadata_size > size - header.metadata_offset)
    return bad(name, "is truncated");
  if (header.metadata_offset + header.metadata_size != size)
    return bad(name, "has extra bytes at its end");
  if (header.metadata_offset < (kind == Kind::kContents ? kDataStart : sizeof(Header)))
    return bad(name, "its header is inconsistent");
  if (kind != Kind::kContents && header.metadata_offset != sizeof(Header))
    return bad(name, "its header is inconsistent");
  if (header.format == kEncryptedFormat && header.metadata_size < sizeof(Seal))
    return bad(name, "its header is inconsistent");
  return {};
}

// Of a file with that header; none: it is not encrypted.
Result<std::optional<FileCipher>> make_cipher(const Fd& file, const std::string& name,
                                              const Header& header, const Key& key) {
  if (header.format == kFormat) {
    if (!key) return std::optional<FileCipher>();
    return Error::of(EKEYREJECTED,
                     "image {} is not encrypted, but there is a key: it is of another dump, or was "
                     "replaced",
                     name);
  }
  if (!key)
    return Error::of(ENOKEY, "image {} is encrypted: name the key by option key-file", name);
  Seal seal;
  TRY(read_at(file, name, header.metadata_offset, std::as_writable_bytes(std::span(&seal, 1))));
  return std::optional(TRY(FileCipher::create(key, seal.salt)));
}

// Replaces the metadata of an encrypted file by what was encrypted.
Status decrypt_metadata(Opened& opened, const FileCipher& cipher, const Header& header) {
  Seal seal;
  memcpy(&seal, opened.metadata.data(), sizeof(seal));
  opened.metadata.erase(opened.metadata.begin(), opened.metadata.begin() + sizeof(seal));
  const Status status =
      cipher.decrypt(header.metadata_offset, opened.metadata, seal.tag, proven(header));
  if (!status.ok()) return Error(status.error()).within("image " + opened.name);
  return {};
}

Status check_padding(const Fd& file, const std::string& name) {
  std::vector<std::byte> padding(kDataStart - sizeof(Header));
  TRY(read_at(file, name, sizeof(Header), padding));
  if (std::ranges::any_of(padding, [](std::byte b) { return b != std::byte{0}; }))
    return Error::of(EBADMSG, "image {}: bytes after its header are damaged", name);
  return {};
}

Status check_size(const std::string& name, Bytes metadata) {
  if (metadata.size() <= kMaxMetadata - sizeof(Seal)) return {};
  return Error::of(EFBIG,
                   "image {} would have {} bytes of metadata, more than the {} that are read", name,
                   metadata.size(), kMaxMetadata - sizeof(Seal));
}

Result<Fd> create_file(int directory, const std::string& name) {
  Fd file(
      ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Error::system("cannot create image {}", name);
  return file;
}

}  // namespace

namespace {

Result<std::optional<FileCipher>> new_cipher(const Key& key) {
  if (!key) return std::optional<FileCipher>();
  return std::optional(TRY(FileCipher::create(key)));
}

}  // namespace

Status write_metadata_file(const Directory& directory, const std::string& name, Kind kind,
                           Bytes metadata) {
  TRY(check_size(name, metadata));
  const auto cipher = TRY(new_cipher(directory.key));
  const Ends ends = make_ends(kind, sizeof(Header), metadata, cipher ? &*cipher : nullptr);
  Fd file = TRY(create_file(directory.fd, name));
  Status status = write_at(file, name, sizeof(Header), ends.metadata);
  if (status.ok()) status = write_at(file, name, 0, bytes_of(ends.header));
  if (status.ok()) status = sync_and_close(file, name);
  if (!status.ok()) unlinkat(directory.fd, name.c_str(), 0);
  return status;
}

Result<ContentsWriter> ContentsWriter::create(const Directory& directory, const std::string& name) {
  auto cipher = TRY(new_cipher(directory.key));
  Fd file = TRY(create_file(directory.fd, name));
  return ContentsWriter(directory.fd, name, std::move(file), std::move(cipher));
}

ContentsWriter::ContentsWriter(ContentsWriter&& other) noexcept
    : directory_(other.directory_),
      name_(std::move(other.name_)),
      file_(std::move(other.file_)),
      cipher_(std::move(other.cipher_)),
      end_(other.end_),
      finished_(std::exchange(other.finished_, true)) {}

ContentsWriter::~ContentsWriter() {
  if (!finished_) unlinkat(directory_, name_.c_str(), 0);
}

Status ContentsWriter::allocate(uint64_t bytes) {
  struct statfs system{};
  // A file system in memory would fill them with zeros.
  if (fstatfs(fd(), &system) != 0 || system.f_type == TMPFS_MAGIC) return {};
  if (fallocate(fd(), 0, 0, static_cast<off_t>(kDataStart + bytes)) == 0) return {};
  if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return {};
  return Error::system("cannot allocate image {}", name_);
}

Result<uint64_t> ContentsWriter::append(Bytes bytes) {
  TRY(write_at(file_, name_, end_, bytes));
  return std::exchange(end_, end_ + bytes.size());
}

Status ContentsWriter::finish(Bytes metadata) {
  TRY(check_size(name_, metadata));
  const Ends ends = make_ends(Kind::kContents, end_, metadata, cipher());
  // Metadata may end at any byte.
  (void)pipeline::set_direct(fd(), false);
  if (ftruncate(fd(), static_cast<off_t>(end_)) != 0)
    return Error::system("cannot truncate image {}", name_);
  TRY(write_at(file_, name_, end_, ends.metadata));
  std::vector<std::byte> first_block(kDataStart);
  memcpy(first_block.data(), &ends.header, sizeof(ends.header));
  TRY(write_at(file_, name_, 0, first_block));
  TRY(sync_and_close(file_, name_));
  finished_ = true;
  return {};
}

Status Opened::read(uint64_t offset, std::span<std::byte> to) const {
  return read_at(file, name, offset, to);
}

namespace {

struct Found {
  Opened opened;
  Header header{};
};

Result<Found> find(const Directory& directory, const std::string& name, Kind kind) {
  Fd file(::openat(directory.fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return Error::system("cannot open image {}", name);
  struct stat status;
  if (fstat(file.get(), &status) != 0) return Error::system("cannot examine image {}", name);
  if (!S_ISREG(status.st_mode)) return Error::of(EBADMSG, "image {} is not a regular file", name);
  const uint64_t size = status.st_size;
  Header header;
  if (size < sizeof(header)) return Error::of(EBADMSG, "image {} is truncated", name);
  TRY(read_at(file, name, 0, std::as_writable_bytes(std::span(&header, 1))));
  TRY(check_header(header, name, kind, size));
  if (kind == Kind::kContents) TRY(check_padding(file, name));
  auto cipher = TRY(make_cipher(file, name, header, directory.key));
  return Found{Opened{.name = name,
                      .file = std::move(file),
                      .data_end = header.metadata_offset,
                      .metadata_size = header.metadata_size,
                      .metadata_sum = header.metadata_sum,
                      .metadata = {},
                      .format = header.format,
                      .cipher = std::move(cipher)},
               header};
}

}  // namespace

Result<Opened> open_data(const Directory& directory, const std::string& name, Kind kind) {
  return std::move(TRY(find(directory, name, kind)).opened);
}

Result<Opened> open_file(const Directory& directory, const std::string& name, Kind kind) {
  auto [opened, header] = TRY(find(directory, name, kind));
  opened.metadata.resize(opened.metadata_size);
  TRY(read_at(opened.file, name, opened.data_end, opened.metadata));
  if (checksum(opened.metadata) != opened.metadata_sum)
    return Error::of(EBADMSG, "image {}: its metadata is damaged (checksum does not match)", name);
  if (opened.cipher) TRY(decrypt_metadata(opened, *opened.cipher, header));
  return std::move(opened);
}

}  // namespace amdgpu_criu::image
