// SPDX-License-Identifier: GPL-2.0
// Chooses the kernel interface of a dump, and finds the kind of images of a restore: ours, of the
// kernel series or of the stock ioctl, or those of CRIU's own amdgpu plugin.
#pragma once

#include <memory>

#include "criu/plugin.h"

namespace amdgpu_criu::criu {

// For a dump; null: the interface of our kernel series, or unknown.
std::unique_ptr<kernel::Api> stock_api_if_needed(const Parts& parts, const host::Host& host);

struct FoundImages {
  image::Set images;
  // Null: the interface of our kernel series. Otherwise only the task that restored an object has
  // it.
  std::unique_ptr<kernel::Api> api;
};
// The kind of images that CRIU's inventory requests a plugin for; nullopt: none that we restore.
// Otherwise a mistake in the options is an error.
Result<std::optional<FoundImages>> find_source(const Parts& parts, const host::Host& host,
                                               const Result<options::Options>& options);

}  // namespace amdgpu_criu::criu
