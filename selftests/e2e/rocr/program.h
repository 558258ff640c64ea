// SPDX-License-Identifier: GPL-2.0
// The start of workloads through ROCr, up to the ready line.
#pragma once

#include <unistd.h>

#include "rocr/hsa.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {

// set_up(runtime, options) returns the Result of a workload, start(workload) a Status,
// bytes(workload) what it compares, and run(workload, options) the exit code.
int run_program(const Options& options, auto set_up, auto start, auto bytes, auto run) {
  amdgpu_criu::Result<std::unique_ptr<Runtime>> runtime = Runtime::create(options.gpus);
  if (!runtime.ok()) {
    say("skip: " + runtime.error().message());
    return runtime.error().code() == ENODEV ? kSkipped : kSetupFailed;
  }
  auto workload = set_up(*std::move(runtime), options);
  amdgpu_criu::Status status =
      workload.ok() ? handle_signals() : amdgpu_criu::Status(workload.error());
  if (status.ok()) status = start(*workload);
  if (!status.ok()) {
    say("setup failed: " + status.error().message());
    return kSetupFailed;
  }
  say(amdgpu_criu::formatted("ready: pid {} rocr gpus {} bytes {}", getpid(), options.gpus,
                             bytes(*workload)));
  return run(*workload, options);
}

}  // namespace e2e
