// SPDX-License-Identifier: GPL-2.0
// System calls that another process makes for this one. The calling thread traces all threads of
// the process, which are stopped, as CRIU stops them, and are in the same state afterwards. x86-64
// only.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace amdgpu_criu::host {

// open(2) for reading and writing, and close-on-exec, with the rights and the root directory of the
// process. Returns the number of its new descriptor, even if it has no more to spare. The caller
// must have no threads.
Result<int> open_in(pid_t pid, const std::string& path);
// close(2).
Status close_in(pid_t pid, int descriptor);

}  // namespace amdgpu_criu::host
