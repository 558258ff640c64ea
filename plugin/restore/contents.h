// SPDX-License-Identifier: GPL-2.0
// Fills BOs from a contents file.
#pragma once

#include <functional>

#include "gpu/engine.h"
#include "image/set.h"

namespace restore {

using DmabufSource = std::function<base::Result<base::Fd>(uint64_t object_id)>;

// Staging of the options, but no slot smaller than the largest chunk.
gpu::StagingSize staging_for(const image::Contents& contents, gpu::StagingSize wanted);

// No chunk reaches the GPU before its checksum was found right. While one chunk is read and
// checked, the copies of those before it are under way.
base::Status fill_contents(gpu::Engine& engine, const image::Opened& file,
                           std::span<const image::Object> objects, const DmabufSource& dmabuf);

}  // namespace restore
