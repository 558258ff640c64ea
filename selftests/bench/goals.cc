// SPDX-License-Identifier: GPL-2.0
#include "goals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace amdgpu_criu::bench {
namespace {

constexpr const char* kShapes[] = {"1x2GiB", "16x128MiB"};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double median(std::vector<double> values) {
  if (values.empty()) return kNone;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Contains the true median of such values in 94 of 100 cases or more, however they are distributed:
// each of them is below it with a probability of one half. These are all values if there are five.
struct Interval {
  double low, high;
};
Interval interval_of_median(std::vector<double> values) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  size_t left_out = 0;
  double exactly = std::exp2(-count), at_most = exactly;  // that many are below the median
  for (double below = 0; below < count; below++) {
    exactly *= (count - below) / (below + 1);
    at_most += exactly;
    if (2 * at_most > 0.0625) break;
    left_out++;
  }
  return {values[left_out], values[values.size() - 1 - left_out]};
}

// Times of one shape. Not a number: it was not measured.
class Shape {
 public:
  Shape(const Times& times, std::string name) : times_(times), name_(std::move(name)) {}
  size_t rounds() const {
    size_t most = 0;
    for (const auto& [name, values] : times_) most = std::max(most, values.size());
    return most;
  }
  double of(const std::string& name, size_t round) const {
    const std::vector<double>& values = all(name);
    return round < values.size() ? values[round] : kNone;
  }
  double median_of(const std::string& name) const { return median(all(name)); }

 private:
  const std::vector<double>& all(const std::string& name) const {
    static const std::vector<double> none;
    const auto found = times_.find(name_ + "/" + name);
    return found == times_.end() ? none : found->second;
  }
  const Times& times_;
  std::string name_;
};

// One round of a shape. Its cases are compared with each other only: a disk may become slower.
class Round {
 public:
  Round(const Shape& shape, size_t number) : shape_(shape), number_(number) {}
  double of(const std::string& name) const { return shape_.of(name, number_); }
  double write() const { return of(faster("write 4 x 8 MiB", "write 16 x 1 MiB")); }
  double slow_write() const { return of("slow disk, write 4 x 8 MiB"); }
  double slow_cpus(const char* alone) const {
    return std::max(of("slow CPUs, copy"), of(std::string("slow CPUs, ") + alone));
  }
  double read() const { return of(faster("read 4 x 8 MiB", "read 16 x 1 MiB")); }

 private:
  const char* faster(const char* one, const char* other) const {
    return shape_.median_of(other) < shape_.median_of(one) ? other : one;
  }
  const Shape& shape_;
  size_t number_;
};

struct Goal {
  const char* name;
  double least;
  double (*measure)(const Round&);
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
     [](const Round& r) { return std::max(r.of("copy"), r.write()) / r.of("dump"); }, nullptr,
     kOneBus},
    {"restore, part of the slower of copies and reads", 0.95,
     [](const Round& r) { return std::max(r.of("copy"), r.read()) / r.of("restore"); }, nullptr,
     kOneBus},
    {"dump with hashes, the same", 0.9,
     [](const Round& r) { return std::max(r.of("copy"), r.write()) / r.of("dump with hashes"); },
     nullptr, kOneBus},
    {"dump, times the speed of one step after the other", 3,
     [](const Round& r) { return r.of("one after the other") / r.of("dump"); }, nullptr,
     "pages of tmpfs are allocated and written in five times the time of a copy: hiding the copy "
     "saves little"},
    {"part of the pause saved by a pre-dump, 5 % dirtied", 0.8,
     [](const Round& r) { return 1 - r.of("after a pre-dump, 5 %") / r.of("dump"); }, kHashesOfAll,
     kHashesOfAll},
    {"on the slow disk: dump, part of its speed", 0.95,
     [](const Round& r) { return r.slow_write() / r.of("slow disk, dump"); }, nullptr, nullptr},
    {"on the slow disk: restore, part of its speed", 0.95,
     [](const Round& r) { return r.of("slow disk, read 4 x 8 MiB") / r.of("slow disk, restore"); },
     nullptr, nullptr},
    {"on the slow disk: dump with hashes, the same", 0.9,
     [](const Round& r) { return r.slow_write() / r.of("slow disk, dump with hashes"); }, nullptr,
     nullptr},
    {"on the slow disk: encrypted dump, the same", 0.9,
     [](const Round& r) { return r.slow_write() / r.of("slow disk, encrypted dump"); }, nullptr,
     nullptr},
    {"on the slow disk: encrypted restore, the same", 0.9,
     [](const Round& r) {
       return r.of("slow disk, read 4 x 8 MiB") / r.of("slow disk, encrypted restore");
     },
     nullptr, nullptr},
    {"on the slow disk: part of the pause saved", 0.8,
     [](const Round& r) {
       return 1 - r.of("slow disk, after a pre-dump, 5 %") / r.of("slow disk, dump");
     },
     nullptr, nullptr},
    {"on the far disk: dump, times that with four slots", 1.5,
     [](const Round& r) { return r.of("far disk, dump, no growth") / r.of("far disk, dump"); },
     nullptr, nullptr},
    {"on the far disk: restore, the same", 1.5,
     [](const Round& r) {
       return r.of("far disk, restore, no growth") / r.of("far disk, restore");
     },
     nullptr, nullptr},
    {"with 16 slow CPUs: dump, part of link or 16 writers", 0.9,
     [](const Round& r) { return r.slow_cpus("write by 16") / r.of("slow CPUs, dump"); }, nullptr,
     nullptr},
    {"with 16 slow CPUs: restore, part of link or readers", 0.8,
     [](const Round& r) { return r.slow_cpus("read by 16") / r.of("slow CPUs, restore"); }, nullptr,
     nullptr},
    {"with a GPU that hashes: first dump, part of the link", 0.95,
     [](const Round& r) { return r.of("slow link, dump") / r.of("slow link, dump with hashes"); },
     nullptr, nullptr},
    {"with a GPU that hashes: dump to pages, part of the link", 0.9,
     [](const Round& r) { return r.of("slow link, copy") / r.of("slow link, dump with hashes"); },
     nullptr, nullptr},
    {"with a GPU that hashes: restore, part of the link", 0.9,
     [](const Round& r) { return r.of("slow link, copy") / r.of("slow link, restore from pages"); },
     nullptr, nullptr},
    {"with 8 GPUs that hash: dump, part of one's speed", 0.9,
     [](const Round& r) {
       return r.of("slow link, dump with hashes") / r.of("slow link, dump of 8 GPUs");
     },
     nullptr, nullptr},
    {"with 8 GPUs that hash: restore, part of one's speed", 0.9,
     [](const Round& r) {
       return r.of("slow link, restore from pages") / r.of("slow link, restore of 8 GPUs");
     },
     nullptr, nullptr},
    {"with a GPU that hashes: part of the pause saved", 0.95,
     [](const Round& r) {
       return 1 - r.of("slow link, after a pre-dump, 5 %") / r.of("slow link, dump");
     },
     nullptr, "the link alone needs 5 % for what is dirty, and the first hashes come before"},
};

std::vector<double> over_rounds(const Shape& shape, const Goal& goal) {
  std::vector<double> values;
  for (size_t round = 0; round < shape.rounds(); round++) {
    const double value = goal.measure(Round(shape, round));
    if (value == value) values.push_back(value);
  }
  return values;
}

struct Judgement {
  Outcome outcome;
  std::string text;
};
Judgement judge(const Goal& goal, const std::vector<double>& values, bool on_disk) {
  if (values.empty()) return {Outcome::kMissed, "not measured"};
  if (values.size() < kMinRounds)
    return {Outcome::kUndecided,
            formatted("undecided: {} rounds, {} are needed", values.size(), kMinRounds)};
  if (median(values) >= goal.least) return {Outcome::kMet, "met"};
  const auto [low, high] = interval_of_median(values);
  const bool missed = high < goal.least;
  const std::string text =
      missed ? "MISSED"
             : formatted("undecided, {:.2f} to {:.2f} in {} rounds", low, high, values.size());
  if (const char* known = on_disk ? goal.on_disk : goal.in_memory)
    return {Outcome::kMet, formatted("{} (known: {})", text, known)};
  return {missed ? Outcome::kMissed : Outcome::kUndecided, text};
}

// The other disks are the same in memory and with any number of objects, and measured once. Slow
// CPUs and the slow link are those of files in memory.
bool is_required(const Goal& goal, const char* shape, bool on_disk) {
  const std::string_view name = goal.name;
  if (name.starts_with("on the ")) return on_disk && shape == kShapes[0];
  return !name.starts_with("with ") || (!on_disk && shape == kShapes[0]);
}

// A slow link stands for a fast one: all rates have the same ratio, so have the times.
std::string frozen_by_link(const Shape& shape) {
  constexpr double kLink = 50e9;
  const double dump = shape.median_of("slow link, dump");
  const auto part = [&](const char* dirty) {
    return shape.median_of(formatted("slow link, after a pre-dump, {} %", dirty)) / dump;
  };
  std::string text;
  if (!(part("5") == part("5"))) return text;
  for (const unsigned gigabytes : {16, 192}) {
    const double seconds = gigabytes * 1e9 / kLink;
    text += formatted(
        "{:>3} GB at {:.0f} GB/s, hashed at {:.0f} GB/s {:>15.2f}{:>8.3f}{:>8.3f}{:>8.3f}\n",
        gigabytes, kLink / 1e9, 20 * kLink / 1e9, seconds, part("0") * seconds, part("5") * seconds,
        part("50") * seconds);
  }
  return text;
}

}  // namespace

Verdict compare_with_goals(const Times& times, bool on_disk, Cases cases) {
  Verdict verdict;
  std::map<Outcome, unsigned> counts;
  for (const char* name : kShapes) {
    const Shape shape(times, name);
    for (const Goal& goal : kGoals) {
      const std::vector<double> values = over_rounds(shape, goal);
      if (values.empty() && (cases == Cases::kChosen || !is_required(goal, name, on_disk)))
        continue;
      const Judgement judgement = judge(goal, values, on_disk);
      counts[judgement.outcome]++;
      verdict.text += formatted("{:<10} {:<52} {:5.2f}, at least {:.2f}: {}\n", name, goal.name,
                                median(values), goal.least, judgement.text);
    }
  }
  if (counts[Outcome::kUndecided]) verdict.outcome = Outcome::kUndecided;
  if (counts[Outcome::kMissed]) verdict.outcome = Outcome::kMissed;
  verdict.text +=
      formatted("goals: {} met or known to be missed, {} missed, {} undecided\n",
                counts[Outcome::kMet], counts[Outcome::kMissed], counts[Outcome::kUndecided]);
  return verdict;
}

Verdict compare_rates(const Rates& rates, Cases cases) {
  constexpr double kGoal = 20e6;
  Verdict verdict;
  for (const char* kernel : {"integers", "floats", "integers_wave32", "floats_wave32"}) {
    const auto found = rates.find(kernel);
    const bool measured = found != rates.end();
    if (!measured && cases == Cases::kChosen) continue;
    const bool met = measured && found->second >= kGoal;
    if (!met) verdict.outcome = Outcome::kMissed;
    verdict.text += formatted("{}: {:.1f} M wave instructions per second, at least {:.0f} M: {}\n",
                              kernel, measured ? found->second / 1e6 : kNone, kGoal / 1e6,
                              met        ? "met"
                              : measured ? "MISSED"
                                         : "not measured");
  }
  return verdict;
}

std::string frozen_times(const Times& times, uint64_t bytes) {
  std::string text;
  const std::string head =
      formatted("{:<38}{:>13}{:>8}{:>8}{:>8}\n", "seconds that a dump stops the process",
                "no pre-dump", "0 %", "5 %", "50 %");
  for (const char* name : kShapes)
    for (const char* disk : {"", "slow disk, "}) {
      const Shape shape(times, name);
      const auto of = [&](const char* what) { return shape.median_of(disk + std::string(what)); };
      const double write = of("write 4 x 8 MiB"), some = of("after a pre-dump, 5 %");
      if (!(write == write && some == some)) continue;
      text +=
          formatted("{:<10} at {:>5.0f} MB/s                 {:>15.2f}{:>8.2f}{:>8.2f}{:>8.2f}\n",
                    name, static_cast<double>(bytes) / write / 1000, of("dump") / 1000,
                    of("after a pre-dump, 0 %") / 1000, of("after a pre-dump, 5 %") / 1000,
                    of("after a pre-dump, 50 %") / 1000);
    }
  text += frozen_by_link(Shape(times, kShapes[0]));
  return text.empty() ? text : head + text;
}

}  // namespace amdgpu_criu::bench
