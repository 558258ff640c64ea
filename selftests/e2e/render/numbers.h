// SPDX-License-Identifier: GPL-2.0
// The numbers that the kernel assigns in a file, and its lists: the same before and after a
// restore.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "render/device.h"

namespace e2e {

// The lowest free numbers of GEM handles, contexts, BO lists and syncobjs. Creates and destroys
// some to find them.
amdgpu_criu::Result<std::string> next_numbers(const RenderDevice& device);

// The driver's list of the file's BOs, one line for each BO and each of its mappings. Empty on a
// kernel without such a list.
amdgpu_criu::Result<std::string> census(const RenderDevice& device);

// The first line that differs, for a person; empty if none does.
std::string first_difference(const std::string& before, const std::string& after);

}  // namespace e2e
