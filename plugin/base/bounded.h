// SPDX-License-Identifier: GPL-2.0
// Waits for system calls that a disk can delay without bound, and that no signal interrupts.
#pragma once

#include <chrono>
#include <functional>

#include "base/result.h"

namespace amdgpu_criu {

using Check = std::function<Status()>;

// How long a failed operation waits for its disk.
inline constexpr std::chrono::milliseconds kPatienceForDisk{300};

// Runs `work` in a thread, and returns its result, or the error of `check`, which is called while
// the thread works. After that error the thread goes on alone: `work` must own all that it uses.
// Without `check`, runs it here.
Status run_until(std::function<Status()> work, const Check& check);

// A `check` that fails after that time.
Check within(std::chrono::milliseconds patience);

// CRIU unloads the plugin before it ends, but not after this call.
void stay_loaded();

// Waits until all work that goes on alone has ended, and returns false if it does not in that time.
bool all_work_ended(std::chrono::milliseconds patience);

}  // namespace amdgpu_criu
