// SPDX-License-Identifier: GPL-2.0
// What workloads through ROCr have in common: the start, up to the ready line, and kernels that are
// held.
#pragma once

#include <unistd.h>

#include <atomic>

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

inline amdgpu_criu::Status kernel_ends(const Signal& done, unsigned timeout_ms) {
  if (done.wait_for(0, timeout_ms)) return {};
  return amdgpu_criu::Error::of(ETIMEDOUT, "a kernel did not end");
}

// Waits for a kernel that runs until `stop` is set, and sets it as soon as a verdict or the end is
// requested. So a dump meets its waves, however slow the machine is.
inline amdgpu_criu::Status held_until_requested(const Signal& done, uint32_t& stop,
                                                unsigned timeout_ms) {
  using amdgpu_criu::Error;
  constexpr unsigned kLookMs = 20;
  while (!verify_requested() && !stop_requested())
    if (done.wait_for(0, kLookMs)) return Error::of(EBADMSG, "a held kernel ended by itself");
  std::atomic_ref(stop).store(1);
  return kernel_ends(done, timeout_ms);
}

}  // namespace e2e
