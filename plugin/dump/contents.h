// SPDX-License-Identifier: GPL-2.0
// Copies the contents of BOs into a contents file.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gpu/engine.h"
#include "image/records.h"

namespace dump {

using DmabufSource = std::function<base::Result<base::Fd>(uint64_t object_id)>;

// While one slot's bytes are summed and written, the copies into the other slots are under way.
base::Result<std::vector<image::Object>> save_contents(gpu::Engine& engine,
                                                       std::span<const kernel::Bo> bos,
                                                       const DmabufSource& dmabuf,
                                                       image::ContentsWriter& to);

}  // namespace dump
