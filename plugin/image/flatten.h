// SPDX-License-Identifier: GPL-2.0
// A contents file without chunks in files of earlier dumps.
#pragma once

#include "image/set.h"

namespace amdgpu_criu::image {

// Writes a file of that name in `to`, with all chunks of the file in `from`, encoded as they are.
// Each chunk is verified. Calls `done` with the size of each chunk. Returns the
// bytes that were in files of earlier dumps.
Result<uint64_t> flatten(
    const Directory& from, const Set::ContentsFile& file, const Directory& to,
    const std::function<void(uint64_t)>& done = [](uint64_t) {});

}  // namespace amdgpu_criu::image
