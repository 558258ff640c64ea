// SPDX-License-Identifier: GPL-2.0
// The chunk index: messages Object of the metadata of contents files. The index of terabytes has
// millions of chunks; protobuf-c's structures would take twice its memory in addition.
#pragma once

#include <optional>
#include <vector>

#include "image/records.h"
#include "image/wire.h"

namespace amdgpu_criu::image {

// With the tag and the length.
size_t encoded_size(const Object& object);
void append(std::vector<std::byte>& to, const Object& object);

// A message Contents without its objects, and the objects. nullopt: it is malformed.
struct SplitContents {
  std::vector<std::byte> rest;
  std::vector<wire::Bytes> objects;
};
std::optional<SplitContents> split_contents(wire::Bytes contents);

// sources: of the contents file. next: the place in the file where the data of the next chunk must
// begin: without gaps in the file, a checksum covers every byte.
Result<Object> decode_object(wire::Bytes message, const Opened& from, size_t sources,
                             uint64_t& next);

}  // namespace amdgpu_criu::image
