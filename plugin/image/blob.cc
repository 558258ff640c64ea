// SPDX-License-Identifier: GPL-2.0
// Layout and numbers are those of the driver's criu_blob.h, kfd_criu_records.h and
// amdgpu_criu_records.h. Their meaning never changes.
#include "image/blob.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace amdgpu_criu::image {
namespace {

constexpr uint64_t kBlobMagic = 0x424f4c4255495243;  // "CRIUBLOB"
constexpr uint64_t kAlignment = 8;

struct BlobHeader {
  uint64_t magic;
  uint32_t format;
  uint32_t header_size;
  uint64_t total_size;
  uint32_t flags;
  uint32_t pad;
};

struct RecordHeader {
  uint16_t type;
  uint16_t version;
  uint32_t flags;
  uint32_t fixed_size;
  uint32_t size;
};

struct Name {
  uint16_t type;
  const char* name;
};
constexpr Name kNames[] = {
    {0x001, "identity"},    {0x100, "process"},    {0x101, "device"},  {0x102, "bo"},
    {0x103, "event page"},  {0x104, "event"},      {0x105, "queue"},   {0x106, "svm range"},
    {0x107, "options"},     {0x200, "file"},       {0x201, "object"},  {0x202, "handle"},
    {0x203, "mapping"},     {0x204, "context"},    {0x205, "bo list"}, {0x206, "syncobj"},
    {0x207, "client name"}, {0x208, "user queue"}, {0xffff, "end"},
};

template <typename T>
std::optional<T> read(std::span<const std::byte> from) {
  T value;
  if (from.size() < sizeof(value)) return std::nullopt;
  memcpy(&value, from.data(), sizeof(value));
  return value;
}

uint64_t padded(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::string BlobRecords::name() const {
  const auto found = std::ranges::find(kNames, type, &Name::type);
  return found == std::end(kNames) ? formatted("type {:#x}", type) : found->name;
}

Result<std::vector<BlobRecords>> list_records(std::span<const std::byte> blob) {
  const auto header = read<BlobHeader>(blob);
  if (!header || header->magic != kBlobMagic || header->header_size < sizeof(BlobHeader) ||
      header->header_size > blob.size())
    return Error(EBADMSG, "not a blob of the driver");
  std::vector<BlobRecords> result;
  for (auto rest = blob.subspan(header->header_size); !rest.empty();) {
    const auto record = read<RecordHeader>(rest);
    if (!record || padded(record->size) > rest.size() - sizeof(*record))
      return Error::of(EBADMSG, "a record is cut off, {} bytes before the end", rest.size());
    rest = rest.subspan(sizeof(*record) + padded(record->size));
    auto known = std::ranges::find_if(result, [&](const BlobRecords& one) {
      return one.type == record->type && one.version == record->version;
    });
    if (known == result.end()) {
      result.push_back({record->type, record->version, 0, 0});
      known = std::prev(result.end());
    }
    known->count++;
    known->bytes += record->size;
  }
  return result;
}

}  // namespace amdgpu_criu::image
