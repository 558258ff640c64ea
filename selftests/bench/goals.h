// SPDX-License-Identifier: GPL-2.0
// Compares what pipeline_bench and gpu_bench measure with the goals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace amdgpu_criu::bench {

// Milliseconds of each round, by SHAPE/CASE.
using Times = std::map<std::string, std::vector<double>>;

enum class Outcome { kMet = 0, kUndecided = 3, kMissed = 4 };  // exit statuses

struct Verdict {
  std::string text;  // a table; its last line sums it up
  Outcome outcome = Outcome::kMet;
};
// A goal is missed if the true median of the rounds is below it in all likelihood, unless that is
// known, and if it was not measured, unless the user has chosen the cases. If only the median of
// these rounds is below it, it is undecided, because a disk's speed varies from run to run, unless
// it is known that it can be missed. A goal with fewer rounds than kMinRounds is undecided, too.
inline constexpr size_t kMinRounds = 5;
enum class Cases { kAll, kChosen };
Verdict compare_with_goals(const Times& times, bool on_disk, Cases cases);

// Wave instructions per second, by kernel. There are no rounds: a core is as fast at any time.
using Rates = std::map<std::string, double>;
Verdict compare_rates(const Rates& rates, Cases cases);

// A table: how long a dump stops the process, on this disk and on the slow one.
std::string frozen_times(const Times& times, uint64_t bytes);

}  // namespace amdgpu_criu::bench
