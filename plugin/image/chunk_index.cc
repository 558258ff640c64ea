// SPDX-License-Identifier: GPL-2.0
#include "image/chunk_index.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace amdgpu_criu::image {
namespace {

using wire::Bytes;
using wire::Reader;
using wire::tag;

// Numbers of fields.
enum ContentsField : uint64_t { kObject = 4 };
enum ObjectField : uint64_t {
  kId = 1,
  kSize,
  kOffsets,
  kChunkSizes,
  kSums,
  kEncodings,
  kStored,
  kSources,
  kSha256,
  kBlake3
};

struct Column {
  ObjectField field;
  uint64_t (*value)(const Chunk& chunk);
  bool may_lack = false;  // if it is 0 for every chunk
};
constexpr Column kColumns[] = {
    {kOffsets, [](const Chunk& chunk) -> uint64_t { return chunk.offset; }},
    {kChunkSizes, [](const Chunk& chunk) -> uint64_t { return chunk.size; }},
    {kEncodings,
     [](const Chunk& chunk) -> uint64_t { return static_cast<uint64_t>(chunk.encoding); }, true},
    {kStored, [](const Chunk& chunk) -> uint64_t { return chunk.compressed; }, true},
    {kSources, [](const Chunk& chunk) -> uint64_t { return chunk.source; }, true}};

// Of the packed values.
size_t size_of(const Object& object, const Column& column) {
  size_t size = 0;
  bool all_zero = true;
  for (const Chunk& chunk : object.chunks) {
    const uint64_t value = column.value(chunk);
    all_zero = all_zero && value == 0;
    size += wire::size_of(value);
  }
  return column.may_lack && all_zero ? 0 : size;
}

constexpr size_t size_of_field(size_t bytes) { return 1 + wire::size_of(bytes) + bytes; }

size_t size_of_body(const Object& object) {
  size_t size = 2 + wire::size_of(object.object_id) + wire::size_of(object.size) +
                size_of_field(object.chunks.size() * sizeof(Sum));
  for (const Column& column : kColumns)
    if (const size_t bytes = size_of(object, column)) size += size_of_field(bytes);
  if (!object.hashes.empty()) size += size_of_field(object.hashes.size() * sizeof(Hash));
  return size;
}

void append_bytes(std::vector<std::byte>& to, Bytes bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// The fields of an object, still encoded.
struct Fields {
  uint64_t id = 0, size = 0;
  Bytes columns[std::size(kColumns)];
  Bytes sums, hashes;
  bool has_sha256 = false;
};

std::optional<Fields> fields_of(Bytes message) {
  Fields fields;
  for (Reader reader(message); !reader.at_end();) {
    const auto next = reader.varint();
    if (!next) return std::nullopt;
    if (*next == tag(kId, wire::kVarint) || *next == tag(kSize, wire::kVarint)) {
      const auto value = reader.varint();
      if (!value) return std::nullopt;
      (*next >> 3 == kId ? fields.id : fields.size) = *value;
      continue;
    }
    if ((*next & 7) != wire::kBytes) {
      if (!reader.skip(*next)) return std::nullopt;
      continue;
    }
    const auto bytes = reader.bytes();
    if (!bytes) return std::nullopt;
    const auto column = std::ranges::find(kColumns, *next >> 3, &Column::field);
    if (column != std::end(kColumns)) fields.columns[column - kColumns] = *bytes;
    if (*next >> 3 == kSums) fields.sums = *bytes;
    if (*next >> 3 == kBlake3) fields.hashes = *bytes;
    if (*next >> 3 == kSha256) fields.has_sha256 = true;
  }
  return fields;
}

// The number of packed values.
size_t count(Bytes column) {
  return std::ranges::count_if(
      column, [](std::byte byte) { return (byte & std::byte{0x80}) == std::byte{0}; });
}

bool fit(const Fields& fields, size_t chunks) {
  for (size_t i = 0; i < std::size(kColumns); i++) {
    const size_t values = count(fields.columns[i]);
    if (values != chunks && !(kColumns[i].may_lack && fields.columns[i].empty())) return false;
  }
  return fields.sums.size() == chunks * sizeof(Sum) &&
         (fields.hashes.empty() || fields.hashes.size() == chunks * sizeof(Hash));
}

// The values of one chunk, in the order of kColumns.
using Values = std::array<uint64_t, std::size(kColumns)>;

Result<Chunk> make_chunk(const Values& values, Bytes sum, const Opened& from) {
  const auto [offset, size, encoding, stored, source] = values;
  if (offset > kMaxOffset || stored > kMaxChunk || source > kMaxSources)
    return bad(from.name, "the place of a chunk is out of range");
  if (encoding > pipeline::kLastEncoding)
    return Error::of(EOPNOTSUPP, "image {}: has a chunk of encoding {}, which is newer than this",
                     from.name, encoding);
  if (size == 0 || size > kMaxChunk) return bad(from.name, "a chunk has a bad size");
  Chunk chunk{.offset = offset,
              .source = source,
              .size = static_cast<uint32_t>(size),
              .compressed = static_cast<uint32_t>(stored),
              .encoding = static_cast<pipeline::Encoding>(encoding)};
  memcpy(chunk.sum.data(), sum.data(), sizeof(Sum));
  const bool zeros = chunk.encoding == pipeline::Encoding::kZeros;
  if (zeros && (chunk.offset != 0 || chunk.source != 0))
    return bad(from.name, "a chunk of zeros has a place in a file");
  if (!zeros && (chunk.stored() == 0 || chunk.stored() > chunk.size))
    return bad(from.name, "the stored size of a chunk is invalid");
  return chunk;
}

}  // namespace

size_t encoded_size(const Object& object) { return size_of_field(size_of_body(object)); }

void append(std::vector<std::byte>& to, const Object& object) {
  wire::put(to, tag(kObject, wire::kBytes));
  wire::put(to, size_of_body(object));
  wire::put(to, tag(kId, wire::kVarint));
  wire::put(to, object.object_id);
  wire::put(to, tag(kSize, wire::kVarint));
  wire::put(to, object.size);
  for (const Column& column : kColumns) {
    const size_t bytes = size_of(object, column);
    if (bytes == 0) continue;
    wire::put(to, tag(column.field, wire::kBytes));
    wire::put(to, bytes);
    for (const Chunk& chunk : object.chunks) wire::put(to, column.value(chunk));
  }
  wire::put(to, tag(kSums, wire::kBytes));
  wire::put(to, object.chunks.size() * sizeof(Sum));
  for (const Chunk& chunk : object.chunks) append_bytes(to, chunk.sum);
  if (object.hashes.empty()) return;
  wire::put(to, tag(kBlake3, wire::kBytes));
  wire::put(to, object.hashes.size() * sizeof(Hash));
  append_bytes(to, std::as_bytes(std::span(object.hashes)));
}

std::optional<SplitContents> split_contents(Bytes contents) {
  SplitContents result;
  for (Reader reader(contents); !reader.at_end();) {
    const Bytes before = reader.rest();
    const auto next = reader.varint();
    if (!next) return std::nullopt;
    if (*next == tag(kObject, wire::kBytes)) {
      const auto object = reader.bytes();
      if (!object) return std::nullopt;
      result.objects.push_back(*object);
      continue;
    }
    if (!reader.skip(*next)) return std::nullopt;
    append_bytes(result.rest, before.first(before.size() - reader.rest().size()));
  }
  return result;
}

Result<Object> decode_object(Bytes message, const Opened& from, size_t sources, uint64_t& next) {
  const auto fields = fields_of(message);
  if (!fields) return bad(from.name, "cannot be decoded");
  Object object{fields->id, fields->size, {}, {}};
  const size_t chunks = count(fields->columns[0]);
  if (object.object_id == 0 || object.size == 0 || !fit(*fields, chunks))
    return bad(from.name, "an object's chunk index is incomplete");
  std::vector<Reader> columns;
  for (const Bytes column : fields->columns) columns.emplace_back(column);
  object.chunks.reserve(chunks);
  uint64_t covered = 0;
  for (size_t i = 0; i < chunks; i++) {
    Values values{};
    for (size_t column = 0; column < columns.size(); column++) {
      if (fields->columns[column].empty()) continue;
      const auto value = columns[column].varint();
      if (!value) return bad(from.name, "cannot be decoded");
      values[column] = *value;
    }
    const Chunk chunk =
        TRY(make_chunk(values, fields->sums.subspan(i * sizeof(Sum), sizeof(Sum)), from));
    covered += chunk.size;
    if (chunk.source > sources) return bad(from.name, "a chunk is in a file that is not named");
    if (chunk.source == 0 && chunk.stored() > 0) {
      if (chunk.offset != next || chunk.stored() > from.data_end - next)
        return bad(from.name, "a chunk is at a wrong offset");
      next += chunk.stored();
    }
    object.chunks.push_back(chunk);
  }
  if (covered != object.size) return bad(from.name, "an object's chunks do not cover it");
  object.hashes.resize(fields->hashes.size() / sizeof(Hash));
  if (!object.hashes.empty())
    memcpy(object.hashes.data(), fields->hashes.data(), fields->hashes.size());
  object.has_other_hashes = fields->has_sha256;
  return object;
}

}  // namespace amdgpu_criu::image
