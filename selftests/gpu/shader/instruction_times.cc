// SPDX-License-Identifier: GPL-2.0
#include "shader/instruction_times.h"

#include <algorithm>
#include <numeric>

#include "base/result.h"

namespace gpu::shader {
namespace {

constexpr std::array<const char*, size_t(Work::kCount)> kNames = {
    "fetch and decode", "scalar", "vector", "matrix", "LDS", "memory"};

bool is_matrix(const std::string& name) {
  return name.starts_with("v_mfma_") || name.starts_with("v_smfmac_") ||
         name.starts_with("v_wmma_");
}

}  // namespace

Work work_of(const Instruction& instruction) {
  switch (instruction.format) {
    case Format::kSop2:
    case Format::kSop1:
    case Format::kSopk:
    case Format::kSopc:
    case Format::kSopp:
      return Work::kScalar;
    case Format::kVop2:
    case Format::kVop1:
    case Format::kVopc:
    case Format::kVop3:
    case Format::kVopd:
      return Work::kVector;
    case Format::kVop3p:
      return is_matrix(instruction.name()) ? Work::kMatrix : Work::kVector;
    case Format::kDs:
      return Work::kShared;
    default:
      return Work::kMemory;
  }
}

void InstructionTimes::add(const Sample& sample, const Instruction& instruction,
                           Clock::time_point end) {
  // The host ran something else meanwhile.
  if (end - sample.begin_ > std::chrono::microseconds(50)) return;
  const auto add_to = [&](Work work, Clock::duration time) {
    const auto spent = std::chrono::nanoseconds(std::max(time - sample.cost_, Clock::duration()));
    nanoseconds_[size_t(work)].fetch_add(static_cast<uint64_t>(spent.count()),
                                         std::memory_order_relaxed);
  };
  add_to(Work::kFetch, sample.fetched_ - sample.begin_);
  add_to(work_of(instruction), end - sample.fetched_);
}

std::array<unsigned, size_t(Work::kCount)> InstructionTimes::percent() const {
  std::array<uint64_t, size_t(Work::kCount)> times;
  std::ranges::copy(nanoseconds_, times.begin());
  const uint64_t sum = std::max<uint64_t>(1, std::accumulate(times.begin(), times.end(), 0ul));
  std::array<unsigned, size_t(Work::kCount)> out;
  std::ranges::transform(times, out.begin(), [&](uint64_t time) { return 100 * time / sum; });
  return out;
}

std::string InstructionTimes::describe() const {
  const auto shares = percent();
  std::string text;
  for (size_t work = 0; work < shares.size(); ++work)
    if (shares[work])
      text +=
          amdgpu_criu::formatted("{}{} {} %", text.empty() ? "" : ", ", kNames[work], shares[work]);
  return text.empty() ? "" : "time: " + text;
}

}  // namespace gpu::shader
