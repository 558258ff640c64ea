// SPDX-License-Identifier: GPL-2.0
// The main loop of a workload: steps, verdicts on request, the end.
#pragma once

#include "workload/chain_math.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {

// Process: step(), done(), verify(WORD). True if all was right.
template <typename Process>
bool run_steps(Process& process, const Options& options) {
  bool good = true;
  while (!stop_requested() && (!options.steps || process.done() < options.steps)) {
    if (take_verify_request()) good &= process.verify("verify");
    const amdgpu_criu::Status status = process.step();
    if (!status.ok()) {
      say("stopped: " + status.error().message());
      process.verify("final");
      return false;
    }
    say(amdgpu_criu::formatted("step {} value {:#018x}", process.done(), value_at(process.done())));
    pause_ms(options.interval_ms);
  }
  return process.verify("final") && good;
}

}  // namespace e2e
