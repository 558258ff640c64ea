// SPDX-License-Identifier: GPL-2.0
#include "host_goals.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "base/result.h"

namespace amdgpu_criu::bench {
namespace {

constexpr const char* kShapes[] = {"1x2GiB", "16x128MiB"};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Medians of one shape.
class Medians {
 public:
  Medians(const Times& times, std::string shape) : times_(times), shape_(std::move(shape)) {}
  // Not a number: it was not measured.
  double of(const std::string& name) const {
    const auto found = times_.find(shape_ + "/" + name);
    return found == times_.end() ? std::numeric_limits<double>::quiet_NaN() : median(found->second);
  }
  double write() const { return std::min(of("write 4 x 8 MiB"), of("write 16 x 1 MiB")); }
  double read() const { return std::min(of("read 4 x 8 MiB"), of("read 16 x 1 MiB")); }

 private:
  const Times& times_;
  std::string shape_;
};

struct Goal {
  const char* name;
  double least;
  double (*measure)(const Medians&);
  // Why it is missed, where that is known.
  const char* on_disk;
  const char* in_memory;
};

constexpr const char* kOneBus =
    "file, copies and sums are all of the same memory and CPUs here, which each limit has alone";

constexpr const char* kHashesOfAll =
    "all memory is copied and hashed, which must be seven times as fast as the disk; one EPYC CPU "
    "copies 10 GB/s and hashes 5.5 GB/s, so two of them do both at 7 GB/s";

constexpr Goal kGoals[] = {
    {"dump, part of the slower of copies and writes", 0.95,
     [](const Medians& m) { return std::max(m.of("copy"), m.write()) / m.of("dump"); }, nullptr,
     kOneBus},
    {"restore, part of the slower of copies and reads", 0.95,
     [](const Medians& m) { return std::max(m.of("copy"), m.read()) / m.of("restore"); }, nullptr,
     kOneBus},
    {"dump with hashes, the same", 0.9,
     [](const Medians& m) { return std::max(m.of("copy"), m.write()) / m.of("dump with hashes"); },
     nullptr, kOneBus},
    {"dump, times the speed of one step after the other", 3,
     [](const Medians& m) { return m.of("one after the other") / m.of("dump"); }, nullptr,
     "pages of tmpfs are allocated and written in five times the time of a copy: hiding the copy "
     "saves little"},
    {"part of the pause saved by a pre-dump, 5 % dirtied", 0.8,
     [](const Medians& m) { return 1 - m.of("after a pre-dump, 5 %") / m.of("dump"); },
     kHashesOfAll, kHashesOfAll},
    {"the same, on the slow disk", 0.8,
     [](const Medians& m) {
       return 1 - m.of("slow disk, after a pre-dump, 5 %") / m.of("slow disk, dump");
     },
     nullptr, nullptr},
};

}  // namespace

Verdict compare_with_goals(const Times& times, bool on_disk) {
  Verdict verdict;
  for (const char* shape : kShapes) {
    const Medians medians(times, shape);
    for (const Goal& goal : kGoals) {
      const double value = goal.measure(medians);
      if (!(value == value)) continue;
      const char* known = on_disk ? goal.on_disk : goal.in_memory;
      const bool met = value >= goal.least;
      verdict.good = verdict.good && (met || known);
      verdict.text += formatted("{:<10} {:<52} {:5.2f}, at least {:.2f}: {}{}\n", shape, goal.name,
                                value, goal.least, met ? "met" : "MISSED",
                                met || !known ? "" : formatted(" (known: {})", known));
    }
  }
  return verdict;
}

std::string frozen_times(const Times& times, uint64_t bytes) {
  std::string text =
      formatted("{:<38}{:>13}{:>8}{:>8}{:>8}\n", "seconds that a dump stops the process",
                "no pre-dump", "0 %", "5 %", "50 %");
  for (const char* shape : kShapes)
    for (const char* disk : {"", "slow disk, "}) {
      const Medians medians(times, shape);
      const auto of = [&](const char* name) { return medians.of(disk + std::string(name)); };
      const double write = of("write 4 x 8 MiB"), some = of("after a pre-dump, 5 %");
      if (!(write == write && some == some)) continue;
      text +=
          formatted("{:<10} at {:>5.0f} MB/s                 {:>15.2f}{:>8.2f}{:>8.2f}{:>8.2f}\n",
                    shape, static_cast<double>(bytes) / write / 1000, of("dump") / 1000,
                    of("after a pre-dump, 0 %") / 1000, of("after a pre-dump, 5 %") / 1000,
                    of("after a pre-dump, 50 %") / 1000);
    }
  return text;
}

}  // namespace amdgpu_criu::bench
