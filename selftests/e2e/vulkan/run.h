// SPDX-License-Identifier: GPL-2.0
// The run of a Vulkan workload, whose constructor and steps may throw.
#pragma once

#include <exception>
#include <stdexcept>

#include "vulkan/device.h"
#include "workload/run.h"

namespace e2e {

// Process: made of options; announce(), and what run_steps() calls. Returns the exit code.
template <typename Process>
int run_on_gpu(const Options& options) {
  set_driver();
  try {
    Process process(options);
    if (const amdgpu_criu::Status status = handle_signals(); !status.ok())
      throw std::runtime_error(status.error().message());
    process.announce();
    return run_steps(process, options) ? kGood : kDamaged;
  } catch (const std::exception& error) {
    say(std::string("setup failed: ") + error.what());
    return kSetupFailed;
  }
}

}  // namespace e2e
