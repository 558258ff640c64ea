// SPDX-License-Identifier: GPL-2.0
// What the time of waves goes to, from a sample of the executed instructions.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shader/instruction.h"

namespace gpu::shader {

enum class Work : uint8_t { kFetch, kScalar, kVector, kMatrix, kShared, kMemory, kCount };

// Of the instruction itself, after it was fetched and decoded.
Work work_of(const Instruction& instruction);

class InstructionTimes {
  using Clock = std::chrono::steady_clock;

 public:
  // One instruction in so many: no power of two, because loops often have such a length.
  static constexpr unsigned kEvery = 1021;

  class Sample {
   public:
    explicit Sample(bool taken) : taken_(taken) {
      if (!taken_) return;
      // What reading the clock takes is part of each time.
      begin_ = Clock::now();
      const auto again = Clock::now();
      cost_ = again - begin_;
      begin_ = again;
    }
    void fetched() {
      if (taken_) fetched_ = Clock::now();
    }
    void executed(InstructionTimes& times, const Instruction& instruction) const {
      if (taken_) times.add(*this, instruction, Clock::now());
    }

   private:
    friend InstructionTimes;
    bool taken_;
    Clock::duration cost_{};
    Clock::time_point begin_{}, fetched_{};
  };

  // The thread that runs waves.
  Sample next() {
    if (--until_sample_ != 0) return Sample(false);
    until_sample_ = kEvery;
    return Sample(true);
  }
  // Any thread. "time: fetch and decode 20 %, ..."; empty before the first sample.
  std::string describe() const;

 private:
  // All are 0 before the first sample.
  std::array<unsigned, size_t(Work::kCount)> percent() const;
  void add(const Sample& sample, const Instruction& instruction, Clock::time_point end);

  unsigned until_sample_ = kEvery;
  std::array<std::atomic<uint64_t>, size_t(Work::kCount)> nanoseconds_ = {};
};

}  // namespace gpu::shader
