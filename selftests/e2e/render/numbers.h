// SPDX-License-Identifier: GPL-2.0
// What the kernel numbers in a file, and what it tells of a file: the same before and after.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "render/device.h"

namespace e2e {

// The numbers that the next new GEM handles, contexts, BO lists and syncobjs get: the lowest that
// are free. Makes and destroys some.
base::Result<std::string> next_numbers(const RenderDevice& device);

// Everything that the driver lists of the file's BOs, one line for each and each of its mappings.
// Empty on a kernel that has no such list.
base::Result<std::string> census(const RenderDevice& device);

// The first line that differs, for a person; empty if none does.
std::string first_difference(const std::string& before, const std::string& after);

}  // namespace e2e
