// SPDX-License-Identifier: GPL-2.0
// The run of a workload: its set-up, steps, verdicts on request, the end.
#pragma once

#include "workload/chain_math.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {

// Process: check(), which adds problems; its error is one, too. done() is read after it.
template <typename Process>
bool verify(Process& process, const char* word) {
  std::vector<std::string> problems;
  const amdgpu_criu::Status status = process.check(problems);
  if (!status.ok()) problems.push_back(status.error().message());
  return give_verdict(word, process.done(), problems);
}

// Process: step() as well. True if all was right.
template <typename Process>
bool run_steps(Process& process, const Options& options) {
  bool good = true;
  while (!stop_requested() && (!options.steps || process.done() < options.steps)) {
    if (take_verify_request()) good &= verify(process, "verify");
    const amdgpu_criu::Status status = process.step();
    if (!status.ok()) {
      say("stopped: " + status.error().message());
      verify(process, "final");
      return false;
    }
    say(amdgpu_criu::formatted("step {} value {:#018x}", process.done(), value_at(process.done())));
    pause_ms(options.interval_ms);
  }
  return verify(process, "final") && good;
}

// set_up() returns the process, or an error. run(process) returns true if all was right. Returns
// the exit code.
template <typename SetUp, typename Run>
int set_up_and_run(SetUp set_up, Run run) {
  using Process = decltype(set_up());
  amdgpu_criu::Status status = handle_signals();
  Process process = status.ok() ? set_up() : Process(std::move(status).error());
  if (!process.ok()) {
    say("setup failed: " + process.error().message());
    return kSetupFailed;
  }
  return run(*process) ? kGood : kDamaged;
}

}  // namespace e2e
