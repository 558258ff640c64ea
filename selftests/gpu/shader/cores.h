// SPDX-License-Identifier: GPL-2.0
// What executes waves: the table of handlers, and instructions that were decoded before.
#pragma once

#include "shader/wave.h"

namespace gpu::shader {

class Cores {
 public:
  Cores();

  // Executes until the wave stops or the count is used up; returns how many were executed.
  unsigned run(Wave& wave, unsigned count);

  uint64_t executed() const { return executed_; }

 private:
  struct Entry {
    std::array<uint32_t, 2> words = {};
    bool valid = false;
    Instruction instruction;
  };
  static constexpr size_t kEntries = 4096;

  const Instruction& decoded(uint64_t pc, const std::array<uint32_t, 2>& words);

  // Decoding depends on nothing but the words, so an entry is right as long as the words are the
  // same: code that is overwritten needs no invalidation.
  std::vector<Entry> cache_;
  uint64_t executed_ = 0;
};

// The handler of an opcode; one that refuses when there is none.
void bind(Instruction& instruction);

}  // namespace gpu::shader
