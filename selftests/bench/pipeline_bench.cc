// SPDX-License-Identifier: GPL-2.0
// Measures how fast contents are saved and restored on this machine, with a fake GPU: plain memory,
// and a thread that copies. Copies and files alone take turns with it: in each round, all cases are
// measured in one order, in the next round in the other, and the cases of a round are compared with
// each other. The medians of the rounds are compared with the goals.
// Variables of the environment:
// BENCH_DIRECTORY: where files are written (default: the current directory);
// BENCH_MIB: the size of the memory (default: 2048); BENCH_ROUNDS: default: 5;
// BENCH_SLOW_DISK: MB/s of the slower disk, which does not vary (default: 500);
// BENCH_FAR_DISK: ms that each transfer takes at least on a disk that is far away (default: 50);
// BENCH_SLOW_CPU: MB/s at which each of 16 CPUs copies files in memory (default: 50), on a machine
// whose link to the GPU is 0.8 times as fast as all of them;
// BENCH_SLOW_LINK: MB/s of the link to a GPU that hashes 20 times as fast (default: 400), or of the
// links to 8 GPUs together;
// BENCH_TABLE: a file that gets the results, too;
// BENCH_STAGING: number and KiB of staging buffers, like 8x4096 (default: the plugin's).
#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>
#include <ranges>

#include "contents_bench.h"
#include "goals.h"

namespace amdgpu_criu::bench {
namespace {

constexpr size_t kMib = 1u << 20;

struct Case {
  const char* name;
  Status (*prepare)(Bench&);
  Status (*measure)(Bench&);
  Slow slow = Slow::kNothing;
};

Status clear(Bench& bench) { return bench.clear(); }
Status prepare_file(Bench& bench) { return bench.prepare_file(); }
Status dump(Bench& bench) { return bench.save(bench.first(), false, false); }
Status dump_with_hashes(Bench& bench) { return bench.save(bench.first(), true, false); }
Status restore(Bench& bench) { return bench.restore(bench.first()); }
Status dump_encrypted(Bench& bench) { return bench.save(bench.first(), false, false, true); }
Status restore_encrypted(Bench& bench) { return bench.restore(bench.first(), true); }

template <unsigned kTwentieths>
constexpr Case after_a_pre_dump(const char* name, Slow slow) {
  return {name,
          [](Bench& bench) -> Status {
            TRY(bench.clear());
            TRY(bench.save(bench.first(), true, false));
            bench.dirty(kTwentieths);
            bench.hash_all();
            return {};
          },
          [](Bench& bench) { return bench.save(bench.second(), true, true); }, slow};
}

Status prepare_reads(Bench& bench) {
  TRY(bench.prepare_file());
  return bench.transfer(true, 4, 8 * kMib);
}
Status prepare_restore(Bench& bench) {
  TRY(bench.clear());
  return dump(bench);
}

Status prepare_hashes(Bench& bench) {
  TRY(bench.clear());
  bench.hash_all();
  return {};
}
Status prepare_pages(Bench& bench) {
  TRY(prepare_hashes(bench));
  return dump_with_hashes(bench);
}

template <Status (*kMeasure)(Bench&)>
Status without_growth(Bench& bench) {
  bench.set_growth(false);
  Status status = kMeasure(bench);
  bench.set_growth(true);
  return status;
}

constexpr unsigned kManyGpus = 8;
Status save_of_8(Bench& bench) {
  bench.set_objects(kManyGpus);
  return bench.save(bench.first(), true, false, false, kManyGpus);
}
Status prepare_pages_of_8(Bench& bench) {
  TRY(prepare_hashes(bench));
  return save_of_8(bench);
}
Status prepare_decryption(Bench& bench) {
  TRY(bench.clear());
  return dump_encrypted(bench);
}

constexpr Case kCases[] = {
    {"copy", clear, [](Bench& b) { return b.copy(); }},
    {"write 4 x 8 MiB", prepare_file, [](Bench& b) { return b.transfer(true, 4, 8 * kMib); }},
    {"write 16 x 1 MiB", prepare_file, [](Bench& b) { return b.transfer(true, 16, kMib); }},
    {"dump", clear, dump},
    {"dump with hashes", clear, dump_with_hashes},
    {"one after the other", clear, [](Bench& b) { return b.one_after_the_other(); }},
    {"read 4 x 8 MiB", prepare_reads, [](Bench& b) { return b.transfer(false, 4, 8 * kMib); }},
    {"read 16 x 1 MiB", prepare_reads, [](Bench& b) { return b.transfer(false, 16, kMib); }},
    {"restore", prepare_restore, restore},
    {"encrypted dump", clear, dump_encrypted},
    {"encrypted restore", prepare_decryption, restore_encrypted},
    after_a_pre_dump<0>("after a pre-dump, 0 %", Slow::kNothing),
    after_a_pre_dump<1>("after a pre-dump, 5 %", Slow::kNothing),
    after_a_pre_dump<10>("after a pre-dump, 50 %", Slow::kNothing),
    {"slow disk, write 4 x 8 MiB", prepare_file,
     [](Bench& b) { return b.transfer(true, 4, 8 * kMib); }, Slow::kDisk},
    {"slow disk, dump", clear, dump, Slow::kDisk},
    {"slow disk, dump with hashes", clear, dump_with_hashes, Slow::kDisk},
    {"slow disk, read 4 x 8 MiB", prepare_reads,
     [](Bench& b) { return b.transfer(false, 4, 8 * kMib); }, Slow::kDisk},
    {"slow disk, restore", prepare_restore, restore, Slow::kDisk},
    {"slow disk, encrypted dump", clear, dump_encrypted, Slow::kDisk},
    {"slow disk, encrypted restore", prepare_decryption, restore_encrypted, Slow::kDisk},
    after_a_pre_dump<0>("slow disk, after a pre-dump, 0 %", Slow::kDisk),
    after_a_pre_dump<1>("slow disk, after a pre-dump, 5 %", Slow::kDisk),
    after_a_pre_dump<10>("slow disk, after a pre-dump, 50 %", Slow::kDisk),
    {"far disk, dump", clear, dump, Slow::kFarDisk},
    {"far disk, dump, no growth", clear, without_growth<dump>, Slow::kFarDisk},
    {"far disk, restore", prepare_restore, restore, Slow::kFarDisk},
    {"far disk, restore, no growth", prepare_restore, without_growth<restore>, Slow::kFarDisk},
    {"slow CPUs, copy", clear, [](Bench& b) { return b.copy(); }, Slow::kCpus},
    {"slow CPUs, write by 16", prepare_file, [](Bench& b) { return b.transfer_by_threads(true); },
     Slow::kCpus},
    {"slow CPUs, dump", clear, dump, Slow::kCpus},
    {"slow CPUs, read by 16", prepare_reads, [](Bench& b) { return b.transfer_by_threads(false); },
     Slow::kCpus},
    {"slow CPUs, restore", prepare_restore, restore, Slow::kCpus},
    {"slow link, copy", clear, [](Bench& b) { return b.copy(); }, Slow::kLink},
    {"slow link, restore from pages", prepare_pages,
     [](Bench& b) { return b.restore(b.first(), false, true); }, Slow::kLink},
    {"slow link, dump of 8 GPUs", prepare_hashes, save_of_8, Slow::kLink},
    {"slow link, restore of 8 GPUs", prepare_pages_of_8,
     [](Bench& b) { return b.restore(b.first(), false, true); }, Slow::kLink},
    {"slow link, dump", clear, dump, Slow::kLink},
    {"slow link, dump with hashes", prepare_hashes, dump_with_hashes, Slow::kLink},
    after_a_pre_dump<0>("slow link, after a pre-dump, 0 %", Slow::kLink),
    after_a_pre_dump<1>("slow link, after a pre-dump, 5 %", Slow::kLink),
    after_a_pre_dump<10>("slow link, after a pre-dump, 50 %", Slow::kLink),
};

struct Shape {
  const char* name;
  unsigned objects;
};
constexpr Shape kShapes[] = {{"1x2GiB", 1}, {"16x128MiB", 16}};

void run(benchmark::State& state, Bench& bench, const Shape& shape, const Case& what) {
  bench.set_objects(shape.objects);
  bench.set_slow(Slow::kNothing);
  Status status = what.prepare(bench);
  sync();
  bench.set_slow(what.slow);
  for (auto _ : state)
    if (status.ok()) status = what.measure(bench);
  if (!status.ok()) state.SkipWithError(status.error().message());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bench.bytes()));
}

void add(Bench& bench, const Shape& shape, const Case& what) {
  // How many objects there are makes no difference to what is slow.
  if (what.slow != Slow::kNothing && shape.objects > 1) return;
  // A disk may be slower than the link.
  if ((what.slow == Slow::kCpus || what.slow == Slow::kLink) && is_disk(directory())) return;
  benchmark::RegisterBenchmark((std::string(shape.name) + "/" + what.name).c_str(),
                               [&](benchmark::State& state) { run(state, bench, shape, what); })
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

class Reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      failed |= run.skipped != benchmark::internal::NotSkipped;
      if (run.run_type == Run::RT_Iteration)
        times[run.run_name.function_name].push_back(run.GetAdjustedRealTime());
    }
  }
  Times times;
  bool failed = false;
};

}  // namespace
}  // namespace amdgpu_criu::bench

int main(int argc, char** argv) {
  using namespace amdgpu_criu::bench;
  const char* const where = directory();
  benchmark::Initialize(&argc, argv);
  // The last one is that of scripts/bench-host.
  const std::string filter = benchmark::GetBenchmarkFilter();
  const bool all =
      filter.empty() || filter == "." || filter == "all" || filter == "-(slow|far) disk";
  Bench bench(std::filesystem::absolute(where) / "bench-saved");
  const uint64_t rounds = number("BENCH_ROUNDS", 5);
  for (uint64_t round = 0; round < rounds; round++)
    for (const Shape& shape : kShapes) {
      if (round % 2 == 0)
        for (const Case& one : kCases) add(bench, shape, one);
      else
        for (const Case& one : std::views::reverse(kCases)) add(bench, shape, one);
    }
  Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  const Verdict verdict =
      compare_with_goals(reporter.times, is_disk(where), all ? Cases::kAll : Cases::kChosen);
  const std::string table = frozen_times(reporter.times, bench.bytes()) + "\n" + verdict.text;
  printf("\n%s", table.c_str());
  if (const char* path = getenv("BENCH_TABLE")) std::ofstream(path) << table;
  return reporter.failed ? 1 : static_cast<int>(verdict.outcome);
}
