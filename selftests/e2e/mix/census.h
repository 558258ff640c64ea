// SPDX-License-Identifier: GPL-2.0
// What the kernel tells of the calling process's mappings of GPU nodes and of its descriptors: a
// line each. Nothing in them may change by a restore.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace e2e {

using Census = std::vector<std::string>;

amdgpu_criu::Result<Census> take_census();

}  // namespace e2e
