// SPDX-License-Identifier: GPL-2.0
#include <unistd.h>

#include "base/result.h"
#include "hip/programs.h"
#include "workload/chain_math.h"
#include "workload/control.h"
#include "workload/options.h"

namespace e2e {
namespace {

bool run(Programs& programs, const Options& options) {
  uint64_t done = 0;
  std::vector<std::string> problems;
  while (!stop_requested() && (!options.steps || done < options.steps)) {
    const uint64_t key = value_at(done + 1);
    const std::string problem = programs.step(done + 1, key);
    if (!problem.empty()) {
      say("stopped: " + problem);
      return false;
    }
    say(amdgpu_criu::formatted("step {} value {:#018x}", ++done, key));
    if (take_verify_request()) give_verdict("verify", done, {});
    pause_ms(options.interval_ms);
  }
  if (std::string problem = programs.finish(); !problem.empty())
    problems.push_back(std::move(problem));
  return give_verdict("final", done, problems);
}

int main_with(const Options& options) {
  std::string problem;
  const std::unique_ptr<Programs> programs = Programs::create(problem);
  if (problem.empty() && !handle_signals().ok()) problem = "no handlers of signals";
  if (!problem.empty()) {
    say("setup failed: " + problem);
    return kSetupFailed;
  }
  say(amdgpu_criu::formatted("ready: pid {} hip gpus 1, textures: {}", getpid(),
                             programs->has_images() ? "yes" : "no, the chip has no images"));
  return run(*programs, options) ? kGood : kDamaged;
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"hip_programs", "Kernels compiled from HIP, each result compared with the CPU's.",
       "--steps --interval"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
