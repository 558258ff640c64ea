// SPDX-License-Identifier: GPL-2.0
// Memory that `criu restore --lazy-pages` fetches when it is used. A fault by the kernel for a GPU
// cannot wait for it.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace amdgpu_criu::host {

// To be called in CRIU's main process.
bool may_miss_memory();
// Returns when all memory that the process can read is there. Waits for CRIU's lazy-pages daemon.
Status fetch_missing_memory(pid_t pid);

}  // namespace amdgpu_criu::host
