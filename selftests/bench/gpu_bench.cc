// SPDX-License-Identifier: GPL-2.0
// How many wave instructions per second one core of this machine executes, for kernels of different
// kinds. Exit status 4: the rate of integers or floats is below the goal, or was not measured.
#include <benchmark/benchmark.h>

#include <cstring>
#include <iostream>
#include <map>

#include "base/result.h"
#include "engines/fake_gpu.h"
#include "goals.h"
#include "shader/code_object.h"
#include "shader/cores.h"
#include "shader/dispatch.h"

namespace gpu::test {
namespace {

using amdgpu_criu::bench::Rates;

constexpr uint64_t kCode = 0x200000, kKernarg = 0x5000, kData = 0x400000;
constexpr uint32_t kRounds = 200, kGroups = 16;
constexpr Space kSpace = {Hub::kGfx, 1};

// The slowest of its repetitions, by kernel.
Rates& rates() {
  static Rates all;
  return all;
}

class Bench {
 public:
  explicit Bench(shader::Isa isa) : object_(object_path("bench.co", isa)), cores_(isa) {
    memory_.bind_vmid(kSpace, 0x8000, 1, false);
    std::memcpy(at(kCode), object_.image().data(), object_.image().size());
    const uint64_t data = kData;
    std::memcpy(at(kKernarg), &data, sizeof(data));
    std::memcpy(at(kKernarg + 8), &kRounds, sizeof(kRounds));
  }

  shader::DispatchSpec spec(const char* kernel) {
    const uint64_t object = kCode + object_.kernel(kernel);
    std::array<uint32_t, 16> words;
    std::memcpy(words.data(), at(object), sizeof(words));
    shader::DispatchSpec out;
    out.code = object + words[4];
    out.rsrc1 = words[12];
    out.rsrc2 = words[13];
    out.rsrc3 = words[11];
    // Behind the resource for private memory, which is not used.
    constexpr uint32_t kPrivateSegmentBuffer = 1 << 0, kWave32 = 1 << 10;
    out.lanes = words[14] & kWave32 ? 32 : 64;
    out.user_data[words[14] & kPrivateSegmentBuffer ? 4 : 0] = low32(kKernarg);
    out.grid = {kGroups * 64, 1, 1};
    out.group_size = {64, 1, 1};
    out.lds_bytes = words[0];
    return out;
  }

  bool run(const char* kernel) {
    auto dispatch = shader::Dispatch::create(cores_, memory_, kSpace, spec(kernel));
    if (!dispatch.ok()) return false;
    auto state = shader::Dispatch::State::kRunning;
    while (state == shader::Dispatch::State::kRunning) state = (*dispatch)->run(1 << 15);
    return state == shader::Dispatch::State::kDone;
  }
  shader::Cores& cores() { return cores_; }

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

void run_kernel(benchmark::State& state, const char* kernel, shader::Isa isa) {
  Bench bench(isa);
  for (auto round : state) {
    if (!bench.run(kernel)) return state.SkipWithError("the kernel does not end");
  }
  const auto executed = static_cast<double>(bench.cores().executed());
  state.counters["wave_instructions"] = benchmark::Counter(executed, benchmark::Counter::kIsRate);
  state.SetLabel(hottest(bench.cores()));
}

// Notes the rates that the others print.
class Reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto found = run.counters.find("wave_instructions");
      if (found == run.counters.end() || run.run_type != Run::RT_Iteration) continue;
      double& rate = rates()[run.run_name.function_name];
      rate = std::max(rate, found->second.value);
    }
  }
};

}  // namespace
}  // namespace gpu::test

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  using gpu::shader::Isa;
  for (const char* kernel : {"integers", "floats", "matrices", "shared", "memory"})
    benchmark::RegisterBenchmark(kernel, gpu::test::run_kernel, kernel, Isa::kGfx90a)
        ->Unit(benchmark::kMillisecond);
  // Waves of 32 lanes.
  for (const char* kernel : {"integers", "floats", "shared", "memory"}) {
    const std::string name = std::string(kernel) + "_wave32";
    benchmark::RegisterBenchmark(name, gpu::test::run_kernel, kernel, Isa::kGfx1100)
        ->Unit(benchmark::kMillisecond);
  }
  gpu::test::Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  using amdgpu_criu::bench::Cases;
  const std::string filter = benchmark::GetBenchmarkFilter();
  const bool all = filter.empty() || filter == "." || filter == "all";
  const auto verdict =
      amdgpu_criu::bench::compare_rates(gpu::test::rates(), all ? Cases::kAll : Cases::kChosen);
  std::cout << verdict.text;
  return static_cast<int>(verdict.outcome);
}
