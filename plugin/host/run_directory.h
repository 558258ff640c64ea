// SPDX-License-Identifier: GPL-2.0
// The directory of files and sockets by which processes of this machine find each other. Nobody but
// its owner can open what is in it, and so lock a file or take a name.
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::host {

// Its files that one process at a time locks.
inline constexpr char kTurnOfRestores[] = "turn";
inline constexpr char kTurnOfFreezes[] = "turn-freeze";

// Creates it, or closes it to others, who then have no lock in it. Fails if it belongs to another
// user.
Result<Fd> open_run_directory(const std::string& path);

// Takes an exclusive flock(2). Fails with ETIMEDOUT and `why` if others keep it for longer.
Status take_lock(const Fd& file, std::chrono::milliseconds patience, const std::string& why);
// Makes the file and locks it.
Result<Fd> lock_in(const Fd& directory, const char* name, std::chrono::milliseconds patience,
                   const std::string& why);

}  // namespace amdgpu_criu::host
