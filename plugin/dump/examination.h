// SPDX-License-Identifier: GPL-2.0
// A dry run of a dump: makes the same queries as a dump, and writes nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dump/dump.h"

namespace amdgpu_criu::dump {

struct Examination {
  std::vector<image::Process> processes;
  std::vector<image::Render> renders;
  std::vector<std::string> refusals;  // none: all state can be carried
  std::vector<std::string> notes;     // what CRIU needs for a dump or a restore

  bool uses_gpu() const { return !processes.empty() || !renders.empty(); }
  // Bytes of GPU memory that a dump would copy, each object once.
  uint64_t contents() const;
};

// Stops the GPU work of the processes while it runs. They must be frozen and traced by the caller.
Examination examine(kernel::Api& api, const host::Host& host, const options::Options& options,
                    std::span<const pid_t> pids);

}  // namespace amdgpu_criu::dump
