// SPDX-License-Identifier: GPL-2.0
// Executes waves: has the table of handlers, and a cache of decoded instructions.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "shader/instruction_times.h"
#include "shader/opcodes.h"
#include "shader/units.h"
#include "shader/wave.h"

namespace gpu::shader {

class Cores {
 public:
  explicit Cores(Isa isa = Isa::kGfx90a, bool sram_ecc = false);

  Isa isa() const { return isa_; }

  // Waves that have ended, for reuse: they are large.
  std::vector<std::unique_ptr<Wave>>& spare_waves() { return spare_waves_; }
  WaveIds& wave_ids(unsigned xcc) { return wave_ids_[xcc]; }

  // Executes until the wave stops or the count is used up; returns how many were executed.
  unsigned run(Wave& wave, unsigned count);

  uint64_t executed() const { return executed_; }
  // How often each opcode ran, the hottest first. The thread that runs waves.
  std::vector<std::pair<std::string, uint64_t>> counts() const;
  const InstructionTimes& times() const { return times_; }
  // The number of executed opcodes that give the same bits as hardware, the names of the others,
  // and where the time went. Any thread.
  std::string report() const;

  // Reports an instruction that the cores lack, which its wave handles. Each reason is reported
  // once until forget_reasons().
  void complain(const std::string& reason, const std::string& text);
  void forget_reasons() { reasons_.clear(); }
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }

 private:
  struct Entry {
    std::array<uint32_t, 3> words = {};
    bool valid = false;
    Instruction instruction;
    std::unique_ptr<Instruction> second = nullptr;  // of VOPD
    uint64_t executed = 0;
  };
  using OpcodeCounts = std::array<std::array<uint64_t, kMaxOpcodes>, size_t(Format::kCount)>;
  static constexpr size_t kEntries = 4096;

  static void add(const Entry& entry, OpcodeCounts& to);
  void replace(Entry& entry, std::span<const uint32_t> words);
  template <size_t kWords>
  const Instruction& decoded(uint64_t pc, const std::array<uint32_t, kWords>& words);
  // kWords: of the longest instruction.
  template <size_t kWords>
  unsigned run_waves(Wave& wave, unsigned count);
  void note_run(const Instruction& instruction);

  const Isa isa_;
  const bool sram_ecc_;
  // Decoding depends on nothing but the words, so an entry is right as long as the words are the
  // same: code that is overwritten needs no invalidation.
  std::vector<Entry> cache_;
  std::vector<std::unique_ptr<Wave>> spare_waves_;
  std::map<unsigned, WaveIds> wave_ids_;
  uint64_t executed_ = 0;
  InstructionTimes times_;
  OpcodeCounts counts_ = {};  // of entries that were replaced
  std::array<std::array<std::atomic<bool>, kMaxOpcodes>, size_t(Format::kCount)> ran_ = {};
  std::set<std::string> reasons_;
  std::vector<std::string> complaints_;
};

// The handler of an opcode; one that refuses when there is none.
void bind(Instruction& instruction);
bool is_modelled(const Instruction& bound);

}  // namespace gpu::shader
