// SPDX-License-Identifier: GPL-2.0
#include "shader/cores.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "shader/packed.h"

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

void gds(Wave& wave, const Instruction& in) {
  wave.refuse(in.name() + " of the global data share is not modelled");
}

bool is_gds(const Instruction& in) {
  return in.format == Format::kDs && in.gds && !in.name().starts_with("ds_gws_");
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
                         packed_ops(), dot_ops(), matrix_ops(), load_store_ops(), format_ops(),
                         image_ops(), image_sample_ops(), atomic_ops(), gws_ops()}) {
    for (const SpecialOp& op : ops) out[op.name] = {.handler = op.handler};
  }
  return out;
}

Bound find(const ByName& names, const std::string& name, Isa isa, Format format) {
  const auto lookup = [&](const std::string& wanted) {
    const auto found = names.find(wanted);
    return found == names.end() ? Bound{.handler = unknown} : found->second;
  };
  if (!is_gfx11(isa)) return lookup(name);
  if (format == Format::kVopd) {
    constexpr std::string_view kPrefix = "v_dual_";
    if (name.empty()) return {.handler = unknown};
    const std::string single = "v_" + name.substr(kPrefix.size());
    if (single == "v_cndmask_b32") return {.handler = execute_dual};
    const Bound bound = find(names, single, isa, Format::kVop2);
    return {.handler = bound.op ? execute_dual : unknown, .op = bound.op};
  }
  if (const Bound own = lookup(name); own.handler != unknown) return own;
  return lookup(gfx9_name(name));
}

// Those of gfx11 count instead of others of the same name.
void add_gfx11(ByName& names) {
  for (const VectorOp& op : gfx11_vector_ops())
    names[op.name] = {.handler = op.compare ? execute_compare : execute_vector, .op = &op};
  for (const auto ops :
       {gfx11_ops(), gfx11_hardware_ops(), gfx11_memory_ops(), gfx11_matrix_ops()}) {
    for (const SpecialOp& op : ops) names[op.name] = {.handler = op.handler};
  }
}

using Table = std::array<std::array<Bound, kMaxOpcodes>, size_t(Format::kCount)>;

std::unique_ptr<Table> make_table(Isa isa) {
  auto table = std::make_unique<Table>();
  ByName names = collect();
  if (is_gfx11(isa)) add_gfx11(names);
  for (size_t format = 0; format < size_t(Format::kCount); ++format) {
    for (unsigned opcode = 0; opcode < kMaxOpcodes; ++opcode) {
      (*table)[format][opcode] =
          find(names, mnemonic(isa, Format(format), opcode), isa, Format(format));
    }
  }
  return table;
}

bool adds_floats_in_memory(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  return has("atomic_add_f") || has("atomic_pk_add_") || has("ds_add_f") || has("ds_add_rtn_f") ||
         has("ds_pk_add_");
}

// WMMA.
bool multiplies_floats_of_gfx11(std::string_view name) {
  return name.starts_with("v_wmma_") && !name.starts_with("v_wmma_i32");
}

// Matrices of FP8 and BF8, and sparse ones of floats.
bool multiplies_like_gfx942(std::string_view name) {
  return name.starts_with("v_smfmac_f32_") ||
         (name.starts_with("v_mfma_f32_") && (name.ends_with("_fp8") || name.ends_with("_bf8")));
}

// Those that may filter: the widths of coordinates and weights are not documented clearly.
bool filters(std::string_view name) { return name.starts_with("image_sample"); }

// Within the error: hardware's documented one, of at most 1 ULP (LLVM's AMDGPUUsage), and the seeds
// of double divisions. Approximate: the accuracy or the order of roundings is not documented, or,
// of sums in memory, the order of the lanes.
std::string describe_accuracy(const std::set<std::string>& names) {
  static const std::set<std::string, std::less<>> kWithinError = {
      "v_exp_f32",  "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32",
      "v_sqrt_f32", "v_exp_f16", "v_log_f16", "v_rcp_f16",       "v_rsq_f16",
      "v_sqrt_f16", "v_rcp_f64", "v_rsq_f64", "v_sqrt_f64"};
  static const std::set<std::string, std::less<>> kApproximate = {
      "v_sin_f32", "v_cos_f32", "v_sin_f16", "v_cos_f16", "v_dot2_f32_f16", "v_dot2c_f32_f16"};
  const auto packs_normalized = [](std::string_view name) {
    return name.starts_with("v_cvt_pknorm_") || name.starts_with("v_cvt_pk_norm_") ||
           name.starts_with("v_cvt_norm_");
  };
  std::string within, approximate;
  size_t exact = 0;
  for (const std::string& name : names) {
    if (kWithinError.contains(name)) {
      within += " " + name;
    } else if (kApproximate.contains(name) || packs_normalized(name) ||
               adds_floats_in_memory(name) || multiplies_floats_of_gfx11(name) ||
               multiplies_like_gfx942(name) || filters(name)) {
      approximate += " " + name;
    } else {
      ++exact;
    }
  }
  return amdgpu_criu::formatted(
      "{} opcodes of compute kernels: {} exact\n  within the documented error:{}\n"
      "  approximate:{}\n",
      names.size(), exact, within, approximate);
}

bool is_vector_alu(Format format) { return format >= Format::kVop2 && format <= Format::kVop3p; }

// The words in the next page, which is not touched unless the instruction extends into it.
template <size_t kWords>
bool fetch_rest(Wave& wave, Isa isa, std::array<uint32_t, kWords>& words, size_t count) {
  for (; count < kWords && decode(words, isa).dwords > count; ++count) {
    if (!wave.memory->read(wave.pc + 4 * count, &words[count], 4)) return false;
  }
  return true;
}

void unknown_second(Wave& wave, const Instruction& in) {
  wave.refuse(in.second->name() + " is not modelled");
}

}  // namespace

void bind(Instruction& instruction) {
  static const std::array tables = {make_table(Isa::kGfx90a), make_table(Isa::kGfx942),
                                    make_table(Isa::kGfx1100)};
  const auto& table = tables[size_t(instruction.isa)];
  const Bound bound = instruction.opcode < kMaxOpcodes
                          ? (*table)[size_t(instruction.format)][instruction.opcode]
                          : Bound{.handler = unknown};
  instruction.handler = bound.handler;
  instruction.op = bound.op;
  if (bound.handler == execute_vector && is_plain(instruction)) instruction.handler = execute_plain;
  if (bound.handler != unknown && is_gds(instruction)) instruction.handler = gds;
}

bool is_modelled(const Instruction& bound) { return bound.handler != unknown; }

Cores::Cores(Isa isa, bool sram_ecc) : isa_(isa), sram_ecc_(sram_ecc), cache_(kEntries) {}

void Cores::note_run(const Instruction& in) {
  if (in.handler != unknown)
    ran_[size_t(in.format)][in.opcode].store(true, std::memory_order_relaxed);
}

void Cores::replace(Entry& entry, std::span<const uint32_t> words) {
  add(entry, counts_);
  entry = {.valid = true, .instruction = decode(words, isa_)};
  std::ranges::copy(words, entry.words.begin());
  Instruction& in = entry.instruction;
  in.clears_half = sram_ecc_;
  bind(in);
  note_run(in);
  if (in.format != Format::kVopd) return;
  entry.second = std::make_unique<Instruction>(decode_second(words));
  bind(*entry.second);
  note_run(*entry.second);
  in.second = entry.second.get();
  if (in.handler != unknown && in.second->handler == unknown) in.handler = unknown_second;
}

template <size_t kWords>
const Instruction& Cores::decoded(uint64_t pc, const std::array<uint32_t, kWords>& words) {
  Entry& entry = cache_[pc / 4 % kEntries];
  if (!entry.valid || std::memcmp(entry.words.data(), words.data(), 4 * kWords) != 0)
    replace(entry, words);
  ++entry.executed;
  return entry.instruction;
}

void Cores::add(const Entry& entry, OpcodeCounts& to) {
  const Instruction& in = entry.instruction;
  if (entry.valid && in.opcode < kMaxOpcodes) to[size_t(in.format)][in.opcode] += entry.executed;
}

std::vector<std::pair<std::string, uint64_t>> Cores::counts() const {
  const auto all = std::make_unique<OpcodeCounts>(counts_);
  for (const Entry& entry : cache_) add(entry, *all);
  std::vector<std::pair<std::string, uint64_t>> out;
  for (size_t format = 0; format < all->size(); ++format) {
    for (unsigned opcode = 0; opcode < kMaxOpcodes; ++opcode) {
      if (const uint64_t count = (*all)[format][opcode])
        out.emplace_back(mnemonic(isa_, Format(format), opcode), count);
    }
  }
  std::ranges::sort(out, std::greater{}, &std::pair<std::string, uint64_t>::second);
  return out;
}

std::string Cores::report() const {
  std::set<std::string> names;
  for (size_t format = 0; format < ran_.size(); ++format) {
    for (unsigned opcode = 0; opcode < kMaxOpcodes; ++opcode) {
      if (ran_[format][opcode]) names.insert(mnemonic(isa_, Format(format), opcode));
    }
  }
  return names.empty() ? "" : describe_accuracy(names) + times_.describe() + "\n";
}

void Cores::complain(const std::string& reason, const std::string& text) {
  if (reasons_.insert(reason).second) complaints_.push_back(text);
}

unsigned Cores::run(Wave& wave, unsigned count) {
  return is_gfx11(isa_) ? run_waves<3>(wave, count) : run_waves<2>(wave, count);
}

template <size_t kWords>
unsigned Cores::run_waves(Wave& wave, unsigned count) {
  unsigned done = 0;
  std::array<uint32_t, kWords> words;
  while (done < count && wave.stop == Stop::kNone) {
    InstructionTimes::Sample sample = times_.next();
    const size_t in_page = wave.memory->fetch(wave.pc, words);
    if (!in_page || (in_page < kWords && !fetch_rest(wave, isa_, words, in_page))) {
      wave.fault();
      break;
    }
    const Instruction& instruction = decoded(wave.pc, words);
    sample.fetched();
    const uint64_t pc = wave.pc;
    wave.pc += instruction.dwords * uint64_t{4};
    ++done;
    if (wave.mode & mode::kGprIdxEn && is_vector_alu(instruction.format)) {
      execute_indexed(wave, instruction);
    } else {
      instruction.handler(wave, instruction);
    }
    sample.executed(times_, instruction);
    // A trap handler finds the instruction that failed.
    if (wave.stop >= Stop::kIllegal) wave.pc = pc;
  }
  executed_ += done;
  return done;
}

}  // namespace gpu::shader
