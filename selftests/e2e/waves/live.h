// SPDX-License-Identifier: GPL-2.0
// The waves of a process that runs: a debugger's ioctls suspend its queues, which saves the waves,
// and resume them.
#pragma once

#include <sys/types.h>

#include "waves/stack.h"

namespace amdgpu_criu {

// Prints the waves, and their registers; returns how many waves there are.
Result<size_t> read_live(pid_t pid, bool registers);

}  // namespace amdgpu_criu
