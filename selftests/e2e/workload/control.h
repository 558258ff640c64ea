// SPDX-License-Identifier: GPL-2.0
// How a workload talks to whoever runs it: lines on stdout, SIGUSR1 and SIGTERM, exit codes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace e2e {

constexpr int kGood = 0, kDamaged = 1, kUsageError = 2, kSetupFailed = 3, kSkipped = 4;

// Whole lines by one write each: a checkpoint never splits one, and none waits in a buffer.
void say(std::string line);

// SIGUSR1 asks for a verdict, SIGUSR2 to let go of something, SIGTERM for the end; from now on
// the three below tell.
base::Status handle_signals();
bool take_verify_request();
bool take_let_go_request();
bool stop_requested();

void pause_ms(unsigned ms);

// "WORD ok: step N", or the first problems and "WORD FAILED"; true when there are none.
bool give_verdict(const char* word, uint64_t step, const std::vector<std::string>& problems);

// Says why; the exit code for it.
int skip(const std::string& why);

}  // namespace e2e
