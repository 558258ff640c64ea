// SPDX-License-Identifier: GPL-2.0
// Compares the times of a run of pipeline_bench with the goals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace amdgpu_criu::bench {

// Milliseconds of each round, by SHAPE/CASE.
using Times = std::map<std::string, std::vector<double>>;

struct Verdict {
  std::string text;  // a table
  bool good = true;  // no goal is missed, except those known to be
};
// A goal is missed if the true median of the rounds is below it in all likelihood. If only the
// median of these rounds is, it is undecided: a disk's speed varies from run to run.
Verdict compare_with_goals(const Times& times, bool on_disk);

// A table: how long a dump stops the process, on this disk and on the slow one.
std::string frozen_times(const Times& times, uint64_t bytes);

}  // namespace amdgpu_criu::bench
