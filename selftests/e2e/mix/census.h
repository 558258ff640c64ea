// SPDX-License-Identifier: GPL-2.0
// One line for each GPU mapping and each descriptor of the calling process, from /proc. A restore
// must not change any of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace e2e {

using Census = std::vector<std::string>;

amdgpu_criu::Result<Census> take_census();

}  // namespace e2e
