// SPDX-License-Identifier: GPL-2.0
// Compares filled BOs with the hashes in their image.
#pragma once

#include "gpu/engine.h"
#include "restore/fill_contents.h"

namespace amdgpu_criu::restore {

// The GPU computes the hashes where the memory is, so an error of a copy is found, which checksums
// of what was read cannot find. Nothing else may write to the BOs. Returns the number of bytes that
// were compared: objects without hashes are left out, and all objects if the GPU computes none.
// A difference is EIO. If the GPU was reset meanwhile, the error is_gpu_lost().
Result<uint64_t> verify_contents(gpu::Engine& engine, const Objects& objects,
                                 const gpu::ImportObject& import);
// True if it can compare all of these objects.
bool can_compare(gpu::Engine& engine, const Objects& objects);

}  // namespace amdgpu_criu::restore
