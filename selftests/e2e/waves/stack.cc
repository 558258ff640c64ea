// SPDX-License-Identifier: GPL-2.0
#include "waves/stack.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace amdgpu_criu {
namespace {

constexpr size_t kPm4Words = 2, kHwregWords = 16, kTtmpWords = 16;
constexpr uint64_t kWord = 4;
constexpr size_t kM0 = 0, kPc = 1, kExec = 3;  // of the HWREGs

uint32_t field(uint32_t word, unsigned high, unsigned low) {
  return word >> low & (0xffffffffu >> (31 - (high - low)));
}

// Behind each record.
uint64_t gap_of(Generation generation) { return generation == Generation::kGfx9 ? 64 : 0; }

bool is_first(uint32_t word, Generation generation) {
  return generation == Generation::kGfx9 ? field(word, 17, 17) : field(word, 12, 12);
}

SavedWave wave_of_gfx11(uint32_t state) {
  constexpr uint32_t kSgprs = 108, kSgprWords = 128;
  const bool narrow = field(state, 24, 24);
  const uint32_t vgprs = (field(state, 5, 0) + 1) * (narrow ? 8 : 4);
  return {.vgprs = vgprs,
          .accum_offset = vgprs,
          .sgprs = kSgprs,
          .lds_bytes = field(state, 17, 10) * 512,
          .lanes = narrow ? 32u : 64u,
          .sgpr_words = kSgprWords};
}

SavedWave wave_of_gfx9(uint32_t state) {
  const uint32_t sgprs = (field(state, 8, 6) + 1) * 16 - 16;
  return {.vgprs = (field(state, 5, 0) + 1) * 8,
          .accum_offset = (field(state, 29, 24) + 1) * 4,
          .sgprs = sgprs,
          .lds_bytes = field(state, 16, 9) * 512,
          .sgpr_words = sgprs};
}

SavedWave wave_of(uint32_t state, bool first, Generation generation) {
  SavedWave wave = generation == Generation::kGfx9 ? wave_of_gfx9(state) : wave_of_gfx11(state);
  if (!first) wave.lds_bytes = 0;
  return wave;
}

class Printer {
 public:
  Printer(const SavedWave& wave, std::span<const std::byte> record)
      : wave_(wave), record_(record) {}

  void print() const {
    const uint64_t row = wave_.vgpr_bytes();
    for (uint32_t i = 0; i < wave_.accum_offset; ++i) line("v", i, i * row, wave_.lanes);
    for (uint32_t i = wave_.accum_offset; i < wave_.vgprs; ++i)
      line("a", i - wave_.accum_offset, i * row, wave_.lanes);
    for (uint32_t i = 0; i < wave_.sgprs; ++i) line("s", i, wave_.sgprs_at() + i * kWord, 1);
    printf("%s pc %08x%08x\n", label().c_str(), hwreg(kPc + 1), hwreg(kPc));
    // Of a narrow wave, EXEC_HI is no mask.
    printf("%s exec %08x%08x\n", label().c_str(), wave_.lanes == 64 ? hwreg(kExec + 1) : 0,
           hwreg(kExec));
    printf("%s m0 %08x\n", label().c_str(), hwreg(kM0));
    for (uint32_t i = 0; i < wave_.lds_bytes / kWord; ++i)
      line("lds", i, wave_.lds_at() + i * kWord, 1);
  }

 private:
  uint32_t word(uint64_t at) const {
    uint32_t value = 0;
    memcpy(&value, &record_[at], sizeof(value));
    return value;
  }
  uint32_t hwreg(size_t number) const { return word(wave_.hwregs_at() + number * kWord); }
  std::string label() const { return formatted("group {} wave {}", wave_.group, wave_.number); }
  void line(const char* kind, uint32_t number, uint64_t at, size_t words) const {
    std::string text = formatted("{} {}{}", label(), kind, number);
    for (size_t i = 0; i < words; ++i) text += formatted(" {:08x}", word(at + i * kWord));
    puts(text.c_str());
  }

  const SavedWave& wave_;
  std::span<const std::byte> record_;
};

}  // namespace

uint64_t SavedWave::sgprs_at() const { return vgprs * vgpr_bytes(); }
uint64_t SavedWave::hwregs_at() const { return sgprs_at() + sgpr_words * kWord; }
uint64_t SavedWave::ttmps_at() const { return hwregs_at() + kHwregWords * kWord; }
uint64_t SavedWave::lds_at() const { return ttmps_at() + kTtmpWords * kWord; }
uint64_t SavedWave::bytes() const { return lds_at() + lds_bytes; }

std::optional<uint64_t> SavedWave::register_at(const std::string& name) const {
  if (name == "pc") return hwregs_at() + kPc * kWord;
  const size_t digits = name.find_first_of("0123456789");
  if (digits == std::string::npos) return std::nullopt;
  const std::string kind = name.substr(0, digits);
  const uint64_t number = strtoull(name.c_str() + digits, nullptr, 10);
  if (kind == "v" && number < accum_offset) return number * vgpr_bytes();
  if (kind == "a" && number < vgprs - accum_offset) return (accum_offset + number) * vgpr_bytes();
  if (kind == "s" && number < sgprs) return sgprs_at() + number * kWord;
  if (kind == "lds" && number < lds_bytes / kWord) return lds_at() + number * kWord;
  return std::nullopt;
}

// The first wave word describes the highest record.
SavedQueue decode_stack(std::span<const uint32_t> stack, Generation generation) {
  const uint64_t gap = gap_of(generation);
  SavedQueue out;
  uint32_t state = 0, number = 0;
  for (size_t i = kPm4Words; i < stack.size(); ++i) {
    const uint32_t word = stack[i];
    if (field(word, 30, 30)) continue;
    if (field(word, 31, 31)) {
      state = word;
      // The next word belongs to the state, whatever it is.
      if (generation == Generation::kGfx11) ++i;
      continue;
    }
    const bool first = is_first(word, generation);
    out.groups += first;
    number = first ? 0 : number + 1;
    out.waves.push_back(wave_of(state, first, generation));
    out.waves.back().group = out.groups - 1;
    out.waves.back().number = number;
    out.bytes += out.waves.back().bytes() + gap;
  }
  uint64_t end = out.bytes;
  for (SavedWave& wave : out.waves) wave.record = end -= wave.bytes() + gap;
  return out;
}

Status print_registers(const SavedQueue& queue, const ReadMemory& read) {
  for (const SavedWave& wave : queue.waves) {
    std::vector<std::byte> record(wave.bytes());
    TRY(read(queue.area + wave.record, record));
    Printer(wave, record).print();
  }
  return {};
}

void print_summary(const SavedQueue& queue) {
  if (queue.waves.empty()) return;
  printf("queue %u, XCC %u: %zu waves in %u work-groups, %llu bytes\n", queue.id, queue.xcc,
         queue.waves.size(), queue.groups, static_cast<unsigned long long>(queue.bytes));
}

}  // namespace amdgpu_criu
