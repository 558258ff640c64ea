// SPDX-License-Identifier: GPL-2.0
// The waves of a process that runs: a debugger's ioctls suspend its queues, which saves the waves,
// and resume them.
#pragma once

#include <sys/types.h>

#include <string>

#include "waves/stack.h"

namespace amdgpu_criu {

// Prints the waves, and their registers; returns how many waves there are. core: the path of a Core
// to write
Result<size_t> read_live(pid_t pid, bool registers, const std::string& core);

}  // namespace amdgpu_criu
