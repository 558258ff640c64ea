// SPDX-License-Identifier: GPL-2.0
#include "shader/cores.h"

#include <unordered_map>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

struct Bound {
  Handler handler = nullptr;
  const VectorOp* op = nullptr;
};

void unknown(Wave& wave, const Instruction& in) {
  if (in.name().empty())
    return wave.refuse(amdgpu_criu::formatted("no instruction {:#010x}", in.words[0]));
  wave.refuse(in.name() + " is not modelled");
}

using ByName = std::unordered_map<std::string_view, Bound>;

ByName collect() {
  ByName out;
  for (const auto ops :
       {integer_ops(), narrow_ops(), float_ops(), double_ops(), convert_ops(), compare_ops()}) {
    for (const VectorOp& op : ops) {
      out[op.name] = {.handler = op.compare ? execute_compare : execute_vector, .op = &op};
    }
  }
  for (const auto ops : {scalar_ops(), program_ops(), hardware_ops(), special_vector_ops(),
                         packed_ops(), load_store_ops(), atomic_ops()}) {
    for (const SpecialOp& op : ops) out[op.name] = {.handler = op.handler};
  }
  return out;
}

using Table = std::array<std::array<Bound, kMaxOpcodes>, size_t(Format::kCount)>;

std::unique_ptr<Table> make_table() {
  auto table = std::make_unique<Table>();
  const ByName names = collect();
  for (size_t format = 0; format < size_t(Format::kCount); ++format) {
    for (unsigned opcode = 0; opcode < kMaxOpcodes; ++opcode) {
      const auto found = names.find(mnemonic(Format(format), opcode));
      (*table)[format][opcode] = found == names.end() ? Bound{.handler = unknown} : found->second;
    }
  }
  return table;
}

bool is_vector_alu(Format format) { return format >= Format::kVop2 && format <= Format::kVop3p; }

// The word in the next page, which is not touched unless the instruction extends into it.
bool fetch_second(Wave& wave, std::array<uint32_t, 2>& words) {
  if (decode(words).dwords < 2) return true;
  return wave.memory->read(wave.pc + 4, &words[1], 4);
}

}  // namespace

void bind(Instruction& instruction) {
  static const std::unique_ptr<Table> table = make_table();
  const Bound bound = instruction.opcode < kMaxOpcodes
                          ? (*table)[size_t(instruction.format)][instruction.opcode]
                          : Bound{.handler = unknown};
  instruction.handler = bound.handler;
  instruction.op = bound.op;
}

Cores::Cores() : cache_(kEntries) {}

const Instruction& Cores::decoded(uint64_t pc, const std::array<uint32_t, 2>& words) {
  Entry& entry = cache_[pc / 4 % kEntries];
  if (entry.valid && entry.words == words) return entry.instruction;
  entry = {.words = words, .valid = true, .instruction = decode(words)};
  bind(entry.instruction);
  return entry.instruction;
}

unsigned Cores::run(Wave& wave, unsigned count) {
  unsigned done = 0;
  std::array<uint32_t, 2> words;
  while (done < count && wave.stop == Stop::kNone) {
    const size_t count_in_page = wave.memory->fetch(wave.pc, words);
    if (!count_in_page || (count_in_page == 1 && !fetch_second(wave, words))) {
      wave.fault();
      break;
    }
    const Instruction& instruction = decoded(wave.pc, words);
    const uint64_t pc = wave.pc;
    wave.pc += instruction.dwords * uint64_t{4};
    ++done;
    if (wave.mode & mode::kGprIdxEn && is_vector_alu(instruction.format)) {
      execute_indexed(wave, instruction);
    } else {
      instruction.handler(wave, instruction);
    }
    // A trap handler finds the instruction that failed.
    if (wave.stop >= Stop::kIllegal) wave.pc = pc;
  }
  executed_ += done;
  return done;
}

}  // namespace gpu::shader
