// SPDX-License-Identifier: GPL-2.0
#include "waves/stack.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace amdgpu_criu {
namespace {

constexpr size_t kPm4Words = 2, kHwregWords = 16, kTtmpWords = 16, kLanes = 64;
constexpr uint64_t kWord = 4, kVgpr = kLanes * kWord, kGap = 64;
constexpr size_t kM0 = 0, kPc = 1, kExec = 3;  // of the HWREGs

uint32_t field(uint32_t word, unsigned high, unsigned low) {
  return word >> low & (0xffffffffu >> (31 - (high - low)));
}

SavedWave wave_of(uint32_t state, bool first) {
  return {.vgprs = (field(state, 5, 0) + 1) * 8,
          .accum_offset = (field(state, 29, 24) + 1) * 4,
          .sgprs = (field(state, 8, 6) + 1) * 16 - 16,
          .lds_bytes = first ? field(state, 16, 9) * 512 : 0};
}

class Printer {
 public:
  Printer(const SavedWave& wave, std::span<const std::byte> record)
      : wave_(wave), record_(record) {}

  void print() const {
    for (uint32_t i = 0; i < wave_.accum_offset; ++i) line("v", i, i * kVgpr, kLanes);
    for (uint32_t i = wave_.accum_offset; i < wave_.vgprs; ++i)
      line("a", i - wave_.accum_offset, i * kVgpr, kLanes);
    for (uint32_t i = 0; i < wave_.sgprs; ++i) line("s", i, wave_.sgprs_at() + i * kWord, 1);
    printf("%s pc %08x%08x\n", label().c_str(), hwreg(kPc + 1), hwreg(kPc));
    printf("%s exec %08x%08x\n", label().c_str(), hwreg(kExec + 1), hwreg(kExec));
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

uint64_t SavedWave::sgprs_at() const { return vgprs * kVgpr; }
uint64_t SavedWave::hwregs_at() const { return sgprs_at() + sgprs * kWord; }
uint64_t SavedWave::ttmps_at() const { return hwregs_at() + kHwregWords * kWord; }
uint64_t SavedWave::lds_at() const { return ttmps_at() + kTtmpWords * kWord; }
uint64_t SavedWave::bytes() const { return lds_at() + lds_bytes; }

std::optional<uint64_t> SavedWave::register_at(const std::string& name) const {
  if (name == "pc") return hwregs_at() + kPc * kWord;
  const size_t digits = name.find_first_of("0123456789");
  if (digits == std::string::npos) return std::nullopt;
  const std::string kind = name.substr(0, digits);
  const uint64_t number = strtoull(name.c_str() + digits, nullptr, 10);
  if (kind == "v" && number < accum_offset) return number * kVgpr;
  if (kind == "a" && number < vgprs - accum_offset) return (accum_offset + number) * kVgpr;
  if (kind == "s" && number < sgprs) return sgprs_at() + number * kWord;
  if (kind == "lds" && number < lds_bytes / kWord) return lds_at() + number * kWord;
  return std::nullopt;
}

// The first wave word describes the highest record.
SavedQueue decode_stack(std::span<const uint32_t> stack) {
  SavedQueue out;
  uint32_t state = 0, number = 0;
  for (size_t i = kPm4Words; i < stack.size(); ++i) {
    const uint32_t word = stack[i];
    if (field(word, 30, 30)) continue;
    if (field(word, 31, 31)) {
      state = word;
      continue;
    }
    const bool first = field(word, 17, 17);
    out.groups += first;
    number = first ? 0 : number + 1;
    out.waves.push_back(wave_of(state, first));
    out.waves.back().group = out.groups - 1;
    out.waves.back().number = number;
    out.bytes += out.waves.back().bytes() + kGap;
  }
  uint64_t end = out.bytes;
  for (SavedWave& wave : out.waves) wave.record = end -= wave.bytes() + kGap;
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
