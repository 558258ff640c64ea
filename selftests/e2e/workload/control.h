// SPDX-License-Identifier: GPL-2.0
// How a workload talks to whoever runs it: lines on stdout, SIGUSR1 and SIGTERM, exit codes.
#pragma once

#include <string>

#include "base/result.h"

namespace e2e {

constexpr int kGood = 0, kDamaged = 1, kUsageError = 2, kSetupFailed = 3, kSkipped = 4;

// Whole lines by one write each: a checkpoint never splits one, and none waits in a buffer.
void say(std::string line);

// SIGUSR1 asks for a verdict, SIGTERM for the end; from now on the two below tell.
base::Status handle_signals();
bool take_verify_request();
bool stop_requested();

void pause_ms(unsigned ms);

}  // namespace e2e
