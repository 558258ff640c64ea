// SPDX-License-Identifier: GPL-2.0
// The decoder against LLVM's disassembler: every opcode of every format, and whole code objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "shader/code_object.h"
#include "shader/cores.h"
#include "shader/instruction.h"

namespace gpu::shader {
namespace {

using test::name_of;

using Words = std::vector<uint32_t>;

struct Text {
  std::string mnemonic;
  size_t dwords;
  std::string line;
};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  std::array<char, 1 << 16> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    out.append(buffer.data(), got);
  }
  return out;
}

std::string without_suffix(std::string name) {
  for (const std::string_view suffix : {"_dpp", "_e32", "_e64", "_sdwa"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return name;
}

// Without formatted(), which would take most of the time of these tests.
std::string bytes_of(const Words& words, char after = ' ') {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint32_t word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const uint32_t byte = word >> shift & 0xff;
      text.append({'0', 'x', kDigits[byte >> 4], kDigits[byte & 15], after});
    }
  }
  return text;
}

// The text to which llvm-mc decodes each encoding; empty if it refuses. Two s_nop follow each of
// them: the first is the literal of an instruction that needs one more word, the second ends it.
std::vector<Text> disassemble(const std::vector<Words>& encodings, Isa isa) {
  const std::string path = testing::TempDir() + "decode_test.txt";
  {
    std::ofstream file(path);
    for (const Words& words : encodings) {
      file << bytes_of(words) << '\n' << bytes_of({0xbf80abcc}) << '\n' << bytes_of({0xbf80abcd});
      file << '\n';
    }
  }
  std::istringstream lines(output_of(std::string(LLVM_MC) +
                                     " --triple=amdgcn --disassemble --show-encoding --mcpu=" +
                                     name_of(isa) + " " + path + " 2>/dev/null"));
  std::vector<Text> out;
  std::optional<Text> first;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("encoding: [");
    if (at == std::string::npos) continue;
    const std::string encoding = line.substr(at + 11);
    std::string name;
    std::istringstream(line) >> name;
    if (encoding.starts_with("0xcd,0xab,0x80,0xbf]")) {
      out.push_back(first.value_or(Text{}));
      first.reset();
      continue;
    }
    const Words& words = encodings.at(out.size());
    std::string start = bytes_of({words[0]}, ',');
    start.pop_back();
    const bool at_start = encoding.starts_with(start);
    const auto commas = static_cast<size_t>(std::ranges::count(encoding, ','));
    if (!first) first = at_start ? Text{without_suffix(name), (commas + 1) / 4, line} : Text{};
  }
  EXPECT_EQ(out.size(), encodings.size());
  return out;
}

// The first word of a format for an opcode, and the operands to try until LLVM accepts one.
struct Encoding {
  Format format;
  unsigned opcodes;
  uint32_t first;
  unsigned shift;
  Words first_operands;
  Words second_words;
};

const Encoding kEncodings[] = {
    {Format::kSop2, 0x60, 0x80000000, 23, {0x040402}, {}},
    {Format::kSopk, 29, 0xb0000000, 23, {0x040014, 0x14}, {}},
    {Format::kSop1, 256, 0xbe800000, 8, {0x040002, 0, 0x040000, 2}, {}},
    {Format::kSopc, 128, 0xbf000000, 16, {0x0402}, {}},
    {Format::kSopp, 128, 0xbf800000, 16, {1, 0}, {}},
    {Format::kSmem, 256, 0xc0000000, 18, {0x20102, 0x102, 0, 0x20000}, {0x10, 0}},
    {Format::kVop2, 62, 0x00000000, 25, {0x040906}, {}},
    {Format::kVop1, 256, 0x7e000000, 9, {0x040106, 0}, {}},
    {Format::kVopc, 256, 0x7c000000, 17, {0x0506}, {}},
    {Format::kVop3, 0x380, 0xd0000000, 16, {}, {}},
    {Format::kVop3p,
     128,
     0xd3800000,
     16,
     {2, 0x20, 0, 0x4002},
     {0x106 | 0x104 << 9 | 0x108 << 18, 0x106 | 0x104 << 9 | 0x108 << 18 | 3 << 27,
      0x106 | 0x10a << 9 | 0x110 << 18, 0x106 | 3 << 27, 0x106, 0x106 | 0x10a << 9 | 3 << 27}},
    {Format::kDs,
     256,
     0xd8000000,
     17,
     {0, 0x10000},
     {0x02000402, 0x402, 0x02000002, 0x060402, 0x02000000, 0x02060402, 0x400, 0}},
    {Format::kFlat, 128, 0xdc000000, 18, {0, 0x10000}, {0x02000002, 0x402, 0x02000402}},
    {Format::kScratch, 128, 0xdc004000, 18, {0}, {0x027f0002, 0x007f0402, 0x02050002}},
    {Format::kGlobal, 128, 0xdc008000, 18, {0, 0x10000}, {0x027f0002, 0x007f0402, 0x027f0402}},
    {Format::kMubuf, 128, 0xe0000000, 18, {0, 0x10000}, {0x80010402, 0, 0x80010002}},
    {Format::kMtbuf, 16, 0xea280000, 15, {0}, {0x80010402}},
    {Format::kMimg, 128, 0xf0000100, 18, {0}, {0x0402}},
};

constexpr uint32_t kThreeVgprs = 0x106 | 0x104 << 9 | 0x108 << 18;
const Encoding kGfx11Encodings[] = {
    {Format::kSop2, 0x40, 0x80000000, 23, {0x040402}, {}},
    {Format::kSopk, 29, 0xb0000000, 23, {0x040014, 0x14}, {}},
    {Format::kSop1, 256, 0xbe800000, 8, {0x040002, 0, 0x040000, 2}, {}},
    {Format::kSopc, 128, 0xbf000000, 16, {0x0402}, {}},
    {Format::kSopp, 128, 0xbf800000, 16, {1, 0}, {}},
    {Format::kSmem, 256, 0xf4000000, 18, {0x102, 0}, {0xf8000010, 0xf8000000}},
    {Format::kVop2, 62, 0x00000000, 25, {0x040906}, {}},
    {Format::kVop1, 128, 0x7e000000, 9, {0x040106, 0}, {}},
    {Format::kVopc, 256, 0x7c000000, 17, {0x0506}, {}},
    {Format::kVop3, 1024, 0xd4000000, 16, {}, {}},
    {Format::kVop3p,
     128,
     0xcc000000,
     16,
     {2, 0x4002, 0x4000},
     {kThreeVgprs, kThreeVgprs | 3 << 27, 0x106 | 0x104 << 9 | 3 << 27,
      0x106 | 0x110 << 9 | 0x120 << 18 | 3 << 27}},
    {Format::kDs,
     256,
     0xd8000000,
     18,
     {0, 0x20000},
     {0x02000402, 0x402, 0x02000002, 0x060402, 0x02000000, 0x02060402, 0x400, 0}},
    {Format::kFlat, 128, 0xdc000000, 18, {0, 0x4000}, {0x027c0002, 0x007c0402, 0x027c0402}},
    {Format::kScratch, 128, 0xdc010000, 18, {0}, {0x02fc0002, 0x00fc0402, 0x02050002}},
    {Format::kGlobal, 128, 0xdc020000, 18, {0, 0x4000}, {0x027c0002, 0x007c0402, 0x027c0402}},
    {Format::kMubuf, 256, 0xe0000000, 18, {0, 0x4000}, {0x80410402, 0, 0x80010402}},
    {Format::kMtbuf, 16, 0xe8080000, 15, {0}, {0x80410402}},
    {Format::kMimg, 256, 0xf0000100, 18, {0, 4}, {0x0402}},
};

std::span<const Encoding> encodings_of(Isa isa) {
  if (isa == Isa::kGfx1100) return kGfx11Encodings;
  return kEncodings;
}

void add_vop3_operands(std::vector<Words>& out, uint32_t first) {
  constexpr uint32_t kVgprs = 0x106 | 0x104 << 9 | 0x108 << 18;
  for (const uint32_t low : {2u, 0x602u, 0u, 126u}) {
    for (const uint32_t second :
         {kVgprs, 0x106u, 0x106u | 0x104 << 9, 0x106u | 4 << 9, 4u | 4 << 9,
          0x106u | 0x104 << 9 | 4 << 18, 0x100u | 0x140 << 9 | 0x180 << 18, 0u}) {
      out.push_back({first | low, second});
    }
  }
}

std::vector<Words> candidates(const Encoding& encoding, unsigned opcode) {
  std::vector<Words> out;
  const uint32_t first = encoding.first | opcode << encoding.shift;
  if (encoding.format == Format::kVop3) {
    add_vop3_operands(out, first);
    return out;
  }
  for (const uint32_t operands : encoding.first_operands) {
    if (encoding.second_words.empty()) {
      out.push_back({first | operands});
      continue;
    }
    for (const uint32_t second : encoding.second_words) out.push_back({first | operands, second});
  }
  return out;
}

class DecodeOpcodes : public testing::TestWithParam<Isa> {};

TEST_P(DecodeOpcodes, AgreeWithLlvmInEveryFormat) {
  const Isa isa = GetParam();
  std::vector<Words> words;
  for (const Encoding& encoding : encodings_of(isa)) {
    for (unsigned opcode = 0; opcode < encoding.opcodes; ++opcode) {
      for (Words& one : candidates(encoding, opcode)) words.push_back(std::move(one));
    }
  }
  const std::vector<Text> texts = disassemble(words, isa);
  ASSERT_EQ(texts.size(), words.size());
  std::set<std::pair<Format, unsigned>> confirmed;
  for (size_t i = 0; i < words.size(); ++i) {
    if (texts[i].mnemonic.empty()) continue;
    Words whole = words[i];
    whole.push_back(0);
    const Instruction instruction = decode(whole, isa);
    EXPECT_EQ(instruction.name(), texts[i].mnemonic) << bytes_of(words[i]);
    EXPECT_EQ(instruction.dwords, texts[i].dwords) << texts[i].mnemonic;
    confirmed.emplace(instruction.format, instruction.opcode);
  }
  // Opcodes of gfx1100 that are in the ISA document and only in some versions of LLVM.
  static const std::set<std::string> kNotInEveryLlvm = {
      "s_endpgm_ordered_ps_done", "v_mov_b16",           "v_swap_b16",
      "buffer_load_lds_u8",       "buffer_load_lds_i8",  "buffer_load_lds_u16",
      "buffer_load_lds_i16",      "buffer_load_lds_b32", "buffer_load_lds_format_x"};
  // Names that LLVM prints for none of the operands above.
  std::set<std::string> unconfirmed;
  for (const Encoding& encoding : encodings_of(isa)) {
    for (unsigned opcode = 0; opcode < encoding.opcodes; ++opcode) {
      const std::string& name = mnemonic(isa, encoding.format, opcode);
      if (isa == Isa::kGfx1100 && kNotInEveryLlvm.contains(name)) continue;
      if (!name.empty() && !confirmed.contains({encoding.format, opcode})) unconfirmed.insert(name);
    }
  }
  EXPECT_THAT(unconfirmed, ::testing::IsEmpty());
  EXPECT_GT(confirmed.size(), 1250u);
}

INSTANTIATE_TEST_SUITE_P(Of, DecodeOpcodes,
                         testing::Values(Isa::kGfx90a, Isa::kGfx942, Isa::kGfx1100),
                         [](const auto& info) { return name_of(info.param); });

// Any two operations may be the halves of a VOPD.
TEST(Decode, BothHalvesOfADualInstructionAgreeWithLlvm) {
  constexpr uint32_t kMove = 8, kDot2accBf16 = 13;  // which only new versions of LLVM have
  std::vector<Words> words;
  for (uint32_t x = 0; x < 16; ++x) {
    for (uint32_t y = 0; y < 32; ++y) {
      if (x == kDot2accBf16 || y == kDot2accBf16) continue;
      // v3 and v6 from v1, v2 and v4, v5. A move has one source.
      const uint32_t x1 = x == kMove ? 0 : 2, y1 = y == kMove ? 0 : 5;
      words.push_back(
          {0xc8000101 | x << 22 | y << 17 | x1 << 9, 0x104 | y1 << 9 | 3u << 17 | 3u << 24});
    }
  }
  const std::vector<Text> texts = disassemble(words, Isa::kGfx1100);
  ASSERT_EQ(texts.size(), words.size());
  std::set<std::string> names;
  for (size_t i = 0; i < words.size(); ++i) {
    Words whole = words[i];
    whole.push_back(0);
    const Instruction first = decode(whole, Isa::kGfx1100);
    if (first.name().empty() || texts[i].mnemonic.empty()) {
      EXPECT_EQ(first.name(), texts[i].mnemonic) << bytes_of(words[i]);
      continue;
    }
    const Instruction second = decode_second(whole);
    EXPECT_EQ(first.dwords, texts[i].dwords);
    EXPECT_THAT(texts[i].line, testing::HasSubstr(first.name() + " v3, v1"));
    EXPECT_THAT(texts[i].line, testing::HasSubstr(":: " + second.name() + " v6, v4"));
    names.insert(first.name());
    names.insert(second.name());
  }
  EXPECT_EQ(names.size(), 16u);
}

struct Line {
  uint64_t address = 0;
  std::string mnemonic, operands;
  std::string second_mnemonic, second_operands;  // of VOPD
  Words words;
};

void split_dual(Line& line) {
  const size_t at = line.operands.find("::");
  if (at == std::string::npos) return;
  std::istringstream second(line.operands.substr(at + 2));
  line.operands.resize(at);
  second >> line.second_mnemonic;
  std::getline(second, line.second_operands);
}

// "	s_load_dwordx2 s[0:1], s[4:5], 0x0    // 000000001000: C0060002 00000000"
std::optional<Line> parse(const std::string& line) {
  const size_t comment = line.find("// ");
  if (comment == std::string::npos) return std::nullopt;
  Line parsed;
  std::istringstream text(line.substr(0, comment));
  text >> parsed.mnemonic;
  std::getline(text, parsed.operands);
  std::istringstream code(line.substr(comment + 3));
  char colon;
  code >> std::hex >> parsed.address >> colon;
  for (std::string word; code >> word && word[0] != '<';) {
    parsed.words.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  }
  parsed.mnemonic = without_suffix(parsed.mnemonic);
  split_dual(parsed);
  return parsed;
}

// The registers that LLVM prints, in its order, as operand codes.
std::vector<unsigned> registers_of(const std::string& text) {
  static const std::regex kRegister(
      R"(\b(v|s|a|ttmp)(\d+|\[(\d+)[:\]])|\b(vcc|exec|flat_scratch|xnack_mask)(_lo|_hi)?\b|\bm0\b)");
  static const std::map<std::string, unsigned> kFirst = {
      {"v", operand::kVgpr},    {"s", 0},
      {"a", operand::kAccVgpr}, {"ttmp", operand::kTtmp},
      {"vcc", operand::kVcc},   {"exec", operand::kExec},
      {"xnack_mask", 104},      {"flat_scratch", operand::kFlatScratch}};
  std::vector<unsigned> out;
  // Behind them, a16 is no register.
  const std::string operands = text.substr(0, text.find(" dmask:"));
  for (std::sregex_iterator at(operands.begin(), operands.end(), kRegister), end; at != end; ++at) {
    const std::smatch& found = *at;
    if (found[1].matched) {
      const std::string number = found[3].matched ? found[3] : found[2];
      out.push_back(kFirst.at(found[1]) + static_cast<unsigned>(std::stoul(number)));
    } else if (found[4].matched) {
      out.push_back(kFirst.at(found[4]) + (found[5] == "_hi"));
    } else {
      out.push_back(operand::kM0);
    }
  }
  return out;
}

// Those that the instruction may name, in LLVM's order.
std::vector<unsigned> fields_of(const Instruction& in) {
  switch (in.format) {
    case Format::kSmem:
      return {in.data, in.address, in.saddr};
    case Format::kMubuf:
    case Format::kMtbuf:
      return {in.data, in.address, in.resource, in.saddr};
    case Format::kMimg: {
      std::vector<unsigned> out = {in.data};
      out.insert(out.end(), in.coordinates.begin(), in.coordinates.end());
      out.insert(out.end(), {in.resource, in.sampler});
      return out;
    }
    case Format::kDs:
    case Format::kFlat:
    case Format::kGlobal:
    case Format::kScratch:
      return {in.dst, in.address, in.data, in.data1, in.saddr};
    default:
      break;
  }
  std::vector<unsigned> out;
  // A compare has its mask first, others their carry second.
  if (in.format != Format::kVopc && in.format != Format::kSopc) out.push_back(in.dst);
  if (in.name().starts_with("v_read")) out = {in.dst - operand::kVgpr};
  if (in.name().starts_with("v_cmp")) out.clear();
  if (in.sdst != Instruction::kNoSdst) out.push_back(in.sdst);
  const bool short_form = in.format == Format::kVop2 || in.format == Format::kVop1;
  if (short_form) out.push_back(operand::kVcc);
  out.insert(out.end(), in.src.begin(), in.src.end());
  if (short_form) out.push_back(operand::kVcc);
  return out;
}

// Every register is in a field, in this order; and the offset is the same.
testing::AssertionResult has_operands(const Instruction& in, const std::string& operands) {
  const std::vector<unsigned> fields = fields_of(in);
  auto next = fields.begin();
  for (const unsigned code : registers_of(operands)) {
    next = std::find(next, fields.end(), code);
    if (next == fields.end()) return testing::AssertionFailure() << "no operand " << code;
    ++next;
  }
  static const std::regex kOffset(R"( offset:(-?\d+)\b)");
  std::smatch found;
  if (!std::regex_search(operands, found, kOffset)) return testing::AssertionSuccess();
  if (std::stoi(found[1]) == in.immediate) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the offset is " << in.immediate;
}

void expect_same(const Instruction& in, const std::string& mnemonic, const std::string& operands,
                 const Line& line) {
  EXPECT_EQ(in.name(), mnemonic) << std::hex << line.address;
  EXPECT_EQ(in.dwords, line.words.size()) << mnemonic;
  EXPECT_TRUE(has_operands(in, operands)) << mnemonic << operands;
}

// Padding that LLVM does not take for an instruction.
bool is_padding(const Line& line) { return line.mnemonic == "v_illegal" && line.words[0] == 0; }

// The instruction set that the header of a code object names.
Isa isa_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header = {};
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  switch (header.e_flags & 0xff) {
    case 0x41:
      return Isa::kGfx1100;
    case 0x4c:
      return Isa::kGfx942;
    default:
      return Isa::kGfx90a;
  }
}

// That of LLVM_OBJDUMP in the environment, if any: code of LLVM 21 and newer needs one as new.
std::string disassembler() {
  const char* chosen = std::getenv("LLVM_OBJDUMP");
  return chosen ? chosen : LLVM_OBJDUMP;
}

// How often the opcodes occur that the cores refuse.
using Refused = std::map<std::string, size_t>;

void note_refused(Instruction in, Refused& refused) {
  bind(in);
  if (!is_modelled(in)) ++refused[in.name()];
}

// Compares every instruction of a code object; returns how many it has.
size_t compare(const std::string& path, Refused* refused = nullptr) {
  const Isa isa = isa_of(path);
  const std::string command = disassembler() + " -d --mcpu=" + name_of(isa) + " " + path;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 1 << 12> buffer;
  size_t count = 0;
  while (fgets(buffer.data(), buffer.size(), pipe.get())) {
    const std::optional<Line> line = parse(buffer.data());
    if (!line || is_padding(*line)) continue;
    ++count;
    Words words = line->words;
    words.resize(words.size() + 1);
    const Instruction instruction = decode(words, isa);
    expect_same(instruction, line->mnemonic, line->operands, *line);
    if (!line->second_mnemonic.empty())
      expect_same(decode_second(words), line->second_mnemonic, line->second_operands, *line);
    if (refused) note_refused(instruction, *refused);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << path;
      break;
    }
  }
  return count;
}

class DecodeObject : public testing::TestWithParam<const char*> {};

TEST_P(DecodeObject, AgreesWithLlvmOnEveryInstruction) {
  EXPECT_GT(compare(std::string(KERNELS "/") + GetParam() + ".co"), 100u);
}

INSTANTIATE_TEST_SUITE_P(Kernels, DecodeObject,
                         testing::Values("gfx90a/basic", "gfx90a/bench", "gfx90a/grid",
                                         "gfx90a/images", "gfx90a/matrix", "gfx90a/numbers",
                                         "gfx90a/rare", "gfx90a/registers", "gfx90a/train",
                                         "gfx942/basic", "gfx942/grid", "gfx942/matrix942",
                                         "gfx942/numbers", "gfx942/rare942", "gfx942/registers",
                                         "gfx942/train", "gfx1100/basic", "gfx1100/bench",
                                         "gfx1100/grid", "gfx1100/images", "gfx1100/numbers",
                                         "gfx1100/train"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// Those in the directory CODE_OBJECTS, which the campaign `decode` fills; without it the trap
// handler that is a code object.
TEST(Decode, AgreesWithLlvmOnEveryInstructionOfADirectory) {
  const char* directory = std::getenv("CODE_OBJECTS");
  size_t instructions = 0, files = 0;
  if (!directory) {
    instructions = compare(KERNELS "/gfx90a/second_level.co");
    EXPECT_GT(instructions, 30u);
    return;
  }
  Refused refused;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    instructions += compare(entry.path(), &refused);
    ++files;
    if (HasFailure()) return;
  }
  std::cout << instructions << " instructions of " << files << " code objects\nnot modelled:";
  for (const auto& [name, count] : refused) std::cout << " " << name << " (" << count << ")";
  std::cout << std::endl;
  EXPECT_GT(instructions, 0u);
}

TEST(Decode, AnOpcodeThatDoesNotExistHasNoName) {
  for (const uint32_t word : {0xffffffffu, 0xf8000000u, 0xf01c0000u, 0xbe80ff00u, 0xdc00c000u}) {
    const Instruction instruction = decode(Words{word, 0});
    EXPECT_TRUE(instruction.name().empty()) << std::hex << word;
    EXPECT_EQ(instruction.dwords, 1);
  }
}

}  // namespace
}  // namespace gpu::shader
