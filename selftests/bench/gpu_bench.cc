// SPDX-License-Identifier: GPL-2.0
// How many wave instructions per second one core of this machine executes, for kernels of different
// kinds and some like those of libraries, what the time goes to, how the rate grows with the
// threads of XCCs and of GPUs, and how many instructions a byte costs that the plugin's kernel
// hashes. Exit status 4: the rate of integers or floats is below the goal, or was not measured.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <thread>

#include "base/result.h"
#include "engines/fake_gpu.h"
#include "goals.h"
#include "shader/code_object.h"
#include "shader/cores.h"
#include "shader/dispatch.h"

namespace gpu::test {
namespace {

using amdgpu_criu::bench::Rates;

constexpr uint64_t kCode = 0x200000, kKernarg = 0x5000, kData = 0x400000, kHashes = 0x800000;
constexpr uint64_t kScratch = 0xa00000;
constexpr uint32_t kScratchWaves = 64, kScratchBytes = 0x10000;
constexpr uint32_t kRounds = 200, kGroups = 16;
// Of the routines, see kernels/bench.cl.
constexpr size_t kFloats = 1 << 16, kDepth = kRounds, kSide = 64, kGroupKeys = 256;
constexpr size_t kQueries = 1024, kKeys = kRounds, kNumbers = 16;
constexpr uint32_t kHashGroup = 256, kHashChunks = 4, kChunkKib = 256;  // as the plugin's
constexpr Space kSpace = {Hub::kGfx, 1};

// The slowest of its repetitions, by kernel.
Rates& rates() {
  static Rates all;
  return all;
}

class Bench {
 public:
  template <typename Arguments>
  Bench(const std::string& path, shader::Isa isa, const Arguments& arguments)
      : object_(path), cores_(isa) {
    memory_.bind_vmid(kSpace, 0x8000, 1, false);
    std::memcpy(at(kCode), object_.image().data(), object_.image().size());
    std::memcpy(at(kKernarg), &arguments, sizeof(arguments));
  }

  shader::DispatchSpec spec(const char* kernel, uint32_t groups, uint32_t group_size) {
    const uint64_t object = kCode + object_.kernel(kernel);
    std::array<uint32_t, 16> words;
    std::memcpy(words.data(), at(object), sizeof(words));
    shader::DispatchSpec out;
    out.code = object + words[4];
    out.rsrc1 = words[12];
    out.rsrc2 = words[13];
    out.rsrc3 = words[11];
    // The arguments are behind the resource for private memory, if there is one.
    constexpr uint32_t kPrivateSegmentBuffer = 1 << 0, kFlatScratch = 1 << 5, kWave32 = 1 << 10;
    out.lanes = words[14] & kWave32 ? 32 : 64;
    size_t next = 0;
    if (words[14] & kPrivateSegmentBuffer) {
      out.user_data = {low32(kScratch), 1u << 31, kScratchWaves * kScratchBytes,
                       1u << 23 | 3u << 21 | 4u << 15};
      next = 4;
    }
    out.user_data[next] = low32(kKernarg);
    if (words[14] & kFlatScratch) out.user_data[next + 2] = low32(kScratch);
    out.scratch_base = kScratch;
    out.scratch_waves = kScratchWaves;
    out.scratch_wave_bytes = kScratchBytes;
    out.grid = {groups * group_size, 1, 1};
    out.group_size = {group_size, 1, 1};
    out.lds_bytes = words[0];
    return out;
  }

  bool run(const char* kernel, uint32_t groups = kGroups, uint32_t group_size = 64) {
    return object_.kernel(kernel) && run(cores_, spec(kernel, groups, group_size));
  }
  bool run(shader::Cores& cores, const shader::DispatchSpec& spec) {
    auto dispatch = shader::Dispatch::create(cores, memory_, kSpace, spec);
    if (!dispatch.ok()) return false;
    auto state = shader::Dispatch::State::kRunning;
    while (state == shader::Dispatch::State::kRunning) state = (*dispatch)->run(1 << 15);
    return state == shader::Dispatch::State::kDone;
  }
  shader::Cores& cores() { return cores_; }
  template <typename T>
  std::span<T> data(size_t count) {
    return {reinterpret_cast<T*>(at(kData)), count};
  }

 private:
  std::byte* at(uint64_t address) { return memory_.space(1).data() + address; }

  CodeObject object_;
  FakeMemory memory_;
  shader::Cores cores_;
};

std::string hottest(const shader::Cores& cores) {
  std::string text;
  size_t named = 0;
  for (const auto& [name, count] : cores.counts()) {
    if (++named > 3) break;
    text += amdgpu_criu::formatted("{}{} {}%", text.empty() ? "" : ", ", name,
                                   100 * count / cores.executed());
  }
  return text;
}

// As kernels/blake3.cl has them.
struct HashArguments {
  uint64_t memory = kData, hashes = kHashes;
  uint32_t memory_kib = kHashChunks * kChunkKib, chunk_kib = kChunkKib;
};

// An instruction of a wave is one of each of its lanes.
void count_hash(benchmark::State& state, shader::Isa isa) {
  Bench bench(HASH_KERNELS "/" + name_of(isa) + ".co", isa, HashArguments());
  for (auto round : state)
    if (!bench.run("hash_chunks", kHashChunks, kHashGroup))
      return state.SkipWithError("the kernel does not end");
  const double lanes = bench.spec("hash_chunks", 1, kHashGroup).lanes;
  state.counters["instructions_per_byte"] =
      static_cast<double>(bench.cores().executed()) * lanes /
      (static_cast<double>(state.iterations()) * kHashChunks * kChunkKib * 1024);
  state.SetLabel(hottest(bench.cores()));
}

struct Arguments {
  uint64_t data = kData;
  uint32_t rounds = kRounds;
};

// The rate, and what the time went to.
void note_rate(benchmark::State& state, const shader::Cores& cores) {
  const auto executed = static_cast<double>(cores.executed());
  state.counters["wave_instructions"] = benchmark::Counter(executed, benchmark::Counter::kIsRate);
  state.SetLabel(hottest(cores) + "; " + cores.times().describe());
}

void run_kernel(benchmark::State& state, const char* kernel, shader::Isa isa) {
  Bench bench(object_path("bench.co", isa), isa, Arguments());
  for (auto round : state) {
    if (!bench.run(kernel)) return state.SkipWithError("the kernel does not end");
  }
  note_rate(state, bench.cores());
}

// Like those of libraries. run_routine() fills the data before, and checks them afterwards.
struct Routine {
  const char* name;
  void (*fill)(Bench&);
  bool (*is_right)(Bench&);
};

void fill_floats(Bench& bench) {
  uint32_t number = 1;
  for (float& value : bench.data<float>(kFloats)) {
    number = number * 1664525 + 1013904223;
    value = static_cast<float>(number >> 16) / 65536 - 0.5f;
  }
}

bool is_near(double value, double expected) { return std::abs(value - expected) < 1e-3; }

bool gemm_is_right(Bench& bench) {
  const auto data = bench.data<float>(kFloats);
  const auto a = data.first(kSide * kDepth), b = data.subspan(kSide * kDepth, kDepth * kSide);
  const auto c = data.subspan(2 * kSide * kDepth, kSide * kSide);
  for (size_t row = 0; row < kSide; ++row)
    for (size_t column = 0; column < kSide; ++column) {
      double sum = 0;
      for (size_t k = 0; k < kDepth; ++k)
        sum += double{a[row * kDepth + k]} * b[k * kSide + column];
      if (!is_near(c[row * kSide + column], sum)) return false;
    }
  return true;
}

void fill_keys(Bench& bench) {
  uint32_t number = 1;
  for (uint32_t& key : bench.data<uint32_t>(kGroups * kGroupKeys))
    key = number = number * 1664525 + 1013904223;
}

bool sort_is_right(Bench& bench) {
  const auto keys = bench.data<uint32_t>(kGroups * kGroupKeys);
  for (size_t group = 0; group < kGroups; ++group)
    if (!std::ranges::is_sorted(keys.subspan(group * kGroupKeys, kGroupKeys))) return false;
  return true;
}

bool attention_is_right(Bench& bench) {
  const auto data = bench.data<float>(kFloats);
  const auto queries = data.first(kNumbers * kQueries);
  const auto keys = data.subspan(kNumbers * kQueries, kNumbers * kKeys);
  const auto values = data.subspan(kNumbers * (kQueries + kKeys), kNumbers * kKeys);
  const auto results = data.subspan(kNumbers * (kQueries + 2 * kKeys), kNumbers * kQueries);
  for (size_t i = 0; i < kQueries; ++i) {
    const auto query = queries.subspan(kNumbers * i, kNumbers);
    double mean = 0, weight = 0;  // of the first number
    for (size_t k = 0; k < kKeys; ++k) {
      const auto key = keys.subspan(kNumbers * k, kNumbers);
      const double product = std::inner_product(key.begin(), key.end(), query.begin(), 0.0);
      mean += std::exp2(product) * values[kNumbers * k];
      weight += std::exp2(product);
    }
    if (!is_near(results[kNumbers * i], mean / weight)) return false;
  }
  return true;
}

constexpr Routine kRoutines[] = {{"gemm", fill_floats, gemm_is_right},
                                 {"sort", fill_keys, sort_is_right},
                                 {"attention", fill_floats, attention_is_right}};

void run_routine(benchmark::State& state, const Routine& routine, shader::Isa isa) {
  Bench bench(object_path("bench.co", isa), isa, Arguments());
  for (auto round : state) {
    state.PauseTiming();
    routine.fill(bench);
    state.ResumeTiming();
    if (!bench.run(routine.name)) return state.SkipWithError("the kernel does not end");
  }
  if (!routine.is_right(bench)) return state.SkipWithError("the result is wrong");
  note_rate(state, bench.cores());
}

// The grid of a routine, once for each thread, as those of several partitions or GPUs run: each
// thread is an XCC, of one GPU or of its own. XCCs of the same partition take turns in one thread.
class Xccs {
 public:
  Xccs(const Routine& routine, size_t count, bool own_gpus) : routine_(routine) {
    for (size_t i = 0; i < count; ++i) {
      if (i == 0 || own_gpus)
        gpus_.push_back(std::make_unique<Bench>(object_path("bench.co", shader::Isa::kGfx90a),
                                                shader::Isa::kGfx90a, Arguments()));
      cores_.push_back(std::make_unique<shader::Cores>());
    }
    for (const auto& gpu : gpus_) routine.fill(*gpu);
  }

  bool run() {
    std::atomic<bool> ended = true;
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < cores_.size(); ++i)
      threads.emplace_back([&, i] {
        if (!run_share(i)) ended = false;
      });
    threads.clear();
    return ended;
  }
  bool is_right() {
    return std::ranges::all_of(gpus_, [&](const auto& gpu) { return routine_.is_right(*gpu); });
  }
  uint64_t executed() const {
    uint64_t sum = 0;
    for (const auto& cores : cores_) sum += cores->executed();
    return sum;
  }

 private:
  // The work-groups of the second axis compute the same.
  bool run_share(unsigned i) {
    const auto shares = static_cast<unsigned>(cores_.size() / gpus_.size());
    Bench& gpu = *gpus_[i % gpus_.size()];
    shader::DispatchSpec spec = gpu.spec(routine_.name, kGroups, 64);
    spec.grid[1] = spec.shares = shares;
    spec.share = i % shares;
    return gpu.run(*cores_[i], spec);
  }

  const Routine& routine_;
  std::vector<std::unique_ptr<Bench>> gpus_;
  std::vector<std::unique_ptr<shader::Cores>> cores_;
};

void run_threads(benchmark::State& state, const Routine& routine, bool own_gpus) {
  Xccs xccs(routine, static_cast<size_t>(state.range(0)), own_gpus);
  const std::clock_t begin = std::clock();
  for (auto round : state)
    if (!xccs.run()) return state.SkipWithError("the kernel does not end");
  const auto seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  if (!xccs.is_right()) return state.SkipWithError("the result is wrong");
  const auto executed = static_cast<double>(xccs.executed());
  state.counters["wave_instructions"] = benchmark::Counter(executed, benchmark::Counter::kIsRate);
  state.counters["of_a_core"] = executed / seconds;
}

// 1, 2, 4, ... and as many as this machine has processors.
std::vector<int64_t> thread_counts() {
  const int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  std::vector<int64_t> counts;
  for (int64_t count = 1; count < processors; count *= 2) counts.push_back(count);
  counts.push_back(processors);
  return counts;
}

void register_threads(const char* what, bool own_gpus) {
  auto* const added =
      benchmark::RegisterBenchmark(amdgpu_criu::formatted("{}_{}", kRoutines[0].name, what),
                                   run_threads, kRoutines[0], own_gpus);
  for (const int64_t count : thread_counts()) added->Arg(count);
  added->Unit(benchmark::kMillisecond)->UseRealTime();
}

// Wave instructions per second of all threads, and per second of processor time, which other
// programs do not lessen.
struct Scaled {
  double rate = 0, of_a_core = 0;
};
// By the number of threads.
std::map<std::string, std::map<int64_t, Scaled>>& scaling() {
  static std::map<std::string, std::map<int64_t, Scaled>> all;
  return all;
}

std::string scaling_text() {
  std::string text;
  for (const auto& [name, of_threads] : scaling())
    for (const auto& [count, scaled] : of_threads)
      text += amdgpu_criu::formatted(
          "{}: {} threads: {:.1f} M wave instructions per second, {:.2f} times, {:.1f} M a core\n",
          name, count, scaled.rate / 1e6, scaled.rate / of_threads.begin()->second.rate,
          scaled.of_a_core / 1e6);
  return text;
}

// Notes the rates that the others print.
class Reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto found = run.counters.find("wave_instructions");
      if (found == run.counters.end() || run.run_type != Run::RT_Iteration) continue;
      const std::string& name = run.run_name.function_name;
      if (run.run_name.args.empty()) {
        rates()[name] = std::max(rates()[name], found->second.value);
        continue;
      }
      Scaled& scaled = scaling()[name][std::stoll(run.run_name.args)];
      scaled.rate = std::max(scaled.rate, found->second.value);
      scaled.of_a_core = std::max(scaled.of_a_core, run.counters.at("of_a_core").value);
    }
  }
};

}  // namespace
}  // namespace gpu::test

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  using gpu::shader::Isa;
  for (const char* kernel :
       {"integers", "floats", "matrices", "shared", "wide", "memory", "buffer", "scratch"})
    benchmark::RegisterBenchmark(kernel, gpu::test::run_kernel, kernel, Isa::kGfx90a)
        ->Unit(benchmark::kMillisecond);
  // Waves of 32 lanes.
  for (const char* kernel : {"integers", "floats", "shared", "wide", "memory", "scratch"}) {
    const std::string name = std::string(kernel) + "_wave32";
    benchmark::RegisterBenchmark(name, gpu::test::run_kernel, kernel, Isa::kGfx1100)
        ->Unit(benchmark::kMillisecond);
  }
  for (const Isa isa : {Isa::kGfx90a, Isa::kGfx1100})
    for (const gpu::test::Routine& routine : gpu::test::kRoutines)
      benchmark::RegisterBenchmark(
          std::string(routine.name) + (isa == Isa::kGfx1100 ? "_wave32" : ""),
          gpu::test::run_routine, routine, isa)
          ->Unit(benchmark::kMillisecond);
  for (const Isa isa : {Isa::kGfx90a, Isa::kGfx942, Isa::kGfx1100})
    benchmark::RegisterBenchmark("hash_" + gpu::test::name_of(isa), gpu::test::count_hash, isa)
        ->Unit(benchmark::kMillisecond);
  gpu::test::register_threads("xccs", false);
  gpu::test::register_threads("gpus", true);
  gpu::test::Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  using amdgpu_criu::bench::Cases;
  const std::string filter = benchmark::GetBenchmarkFilter();
  const bool all = filter.empty() || filter == "." || filter == "all";
  const auto verdict =
      amdgpu_criu::bench::compare_rates(gpu::test::rates(), all ? Cases::kAll : Cases::kChosen);
  std::cout << gpu::test::scaling_text() << verdict.text;
  return static_cast<int>(verdict.outcome);
}
