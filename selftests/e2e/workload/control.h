// SPDX-License-Identifier: GPL-2.0
// The interface between a workload and its caller: lines on stdout, signals, exit codes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace e2e {

constexpr int kGood = 0, kDamaged = 1, kUsageError = 2, kSetupFailed = 3, kSkipped = 4;

// Writes a whole line at once: a checkpoint never splits one, and none waits in a buffer.
void say(std::string line);

// SIGUSR1 requests a verdict, SIGUSR2 to release something, SIGTERM the end; the functions below
// return such requests. One that is taken is not returned again.
amdgpu_criu::Status handle_signals();
bool verify_requested();
bool take_verify_request();
bool take_release_request();
bool stop_requested();

void pause_ms(unsigned ms);

// "WORD ok: step N", or the first problems and "WORD FAILED"; true if there are none.
bool give_verdict(const char* word, uint64_t step, const std::vector<std::string>& problems);

// Prints the reason; returns the exit code.
int skip(const std::string& why);

}  // namespace e2e
