// SPDX-License-Identifier: GPL-2.0
// What executes waves: the table of handlers, and instructions that were decoded before.
#pragma once

#include <array>
#include <atomic>
#include <set>
#include <utility>

#include "shader/opcodes.h"
#include "shader/wave.h"

namespace gpu::shader {

class Cores {
 public:
  Cores();

  // Executes until the wave stops or the count is used up; returns how many were executed.
  unsigned run(Wave& wave, unsigned count);

  uint64_t executed() const { return executed_; }
  // How many of the opcodes that ran give the same bits as hardware, and which others did. Any
  // thread.
  std::string report() const;

  // An instruction that the cores do not have; its wave deals with that itself. Each reason is
  // taken once.
  void complain(const std::string& reason, const std::string& text);
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }

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
  std::array<std::array<std::atomic<bool>, kMaxOpcodes>, size_t(Format::kCount)> ran_ = {};
  std::set<std::string> reasons_;
  std::vector<std::string> complaints_;
};

// The handler of an opcode; one that refuses when there is none.
void bind(Instruction& instruction);

}  // namespace gpu::shader
