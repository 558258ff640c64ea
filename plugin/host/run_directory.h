// SPDX-License-Identifier: GPL-2.0
// The directory of files and sockets by which processes of this machine find each other. Nobody but
// its owner can open what is in it, and so lock a file or take a name.
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::host {

struct RunDirectory {
  Fd directory;
  bool was_open;  // to others, who may still have something of it open
};

// Creates it, or closes it to others. Fails if it belongs to another user.
Result<RunDirectory> open_run_directory(const std::string& path);

// Takes an exclusive flock(2). Fails with `why` if others keep it for longer.
Status lock_within(const Fd& file, std::chrono::milliseconds patience, const std::string& why);

}  // namespace amdgpu_criu::host
