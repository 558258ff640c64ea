// SPDX-License-Identifier: GPL-2.0
// Encodings of GFX9: "AMD Instinct MI200" ISA document, chapter 13. What gfx90a adds to GFX9 (the
// acc bits of DS, FLAT and MUBUF) is in LLVM's description of the target. gfx942 has other names
// for the bits of cache policies, of which only GLC (there SC0) counts here: an atomic returns a
// value.
#include <algorithm>

#include "shader/decode_fields.h"

namespace gpu::shader {
namespace {

// Words are zero where the memory behind the instruction cannot be read.
struct Decoder {
  std::span<const uint32_t> words;
  Instruction out = {};

  uint32_t first() const { return words[0]; }
  uint32_t second() const { return words.size() > 1 ? words[1] : 0; }

  void set(Format format, unsigned opcode) {
    out.format = format;
    out.opcode = static_cast<uint16_t>(opcode);
  }
  void take_second(Instruction::Extra extra) {
    out.extra = extra;
    out.dwords = 2;
    out.literal = second();
  }
  void scalar_source(unsigned i, uint32_t code) {
    out.src[i] = static_cast<uint16_t>(code);
    if (out.sources <= i) out.sources = static_cast<uint8_t>(i + 1);
    if (code == operand::kLiteral) take_second(Instruction::Extra::kLiteral);
  }

  void sop2();
  void sop1();
  void sopk();
  void sopc();
  void sopp();
  void smem();
  void vop2();
  void vop1();
  void vopc();
  void vop3();
  void vop3p();
  void ds();
  void flat();
  void buffer();
  void mubuf();
  void mtbuf();
  void mimg();
  void vector_source0(uint32_t code);
  void sdwa();
};

void Decoder::sop2() {
  set(Format::kSop2, bits(first(), 29, 23));
  out.dst = field(first(), 22, 16);
  scalar_source(0, bits(first(), 7, 0));
  scalar_source(1, bits(first(), 15, 8));
}

void Decoder::sop1() {
  set(Format::kSop1, bits(first(), 15, 8));
  out.dst = field(first(), 22, 16);
  scalar_source(0, bits(first(), 7, 0));
}

void Decoder::sopk() {
  constexpr unsigned kSetregImm32 = 20;
  set(Format::kSopk, bits(first(), 27, 23));
  out.dst = field(first(), 22, 16);
  out.immediate = static_cast<int16_t>(bits(first(), 15, 0));
  if (out.opcode == kSetregImm32) take_second(Instruction::Extra::kLiteral);
}

void Decoder::sopc() {
  set(Format::kSopc, bits(first(), 22, 16));
  scalar_source(0, bits(first(), 7, 0));
  scalar_source(1, bits(first(), 15, 8));
}

void Decoder::sopp() {
  set(Format::kSopp, bits(first(), 22, 16));
  out.immediate = static_cast<int16_t>(bits(first(), 15, 0));
}

void Decoder::smem() {
  set(Format::kSmem, bits(first(), 25, 18));
  out.dwords = 2;
  out.address = static_cast<uint16_t>(bits(first(), 5, 0) * 2);
  out.data = field(first(), 12, 6);
  out.glc = bits(first(), 16, 16);
  const bool has_immediate = bits(first(), 17, 17);
  const bool has_soffset = bits(first(), 14, 14);
  // Without an immediate the low bits of its field name the register.
  if (has_immediate) out.immediate = sign_extend(bits(second(), 20, 0), 21);
  out.uses_saddr = has_soffset || !has_immediate;
  out.saddr = has_soffset ? field(second(), 31, 25) : field(second(), 6, 0);
}

void Decoder::vector_source0(uint32_t code) {
  out.src[0] = static_cast<uint16_t>(code);
  if (!out.sources) out.sources = 1;
  if (code == operand::kLiteral) take_second(Instruction::Extra::kLiteral);
  if (code == operand::kSdwa) sdwa();
  if (code == operand::kDpp) {
    take_second(Instruction::Extra::kDpp);
    out.src[0] = vgpr(bits(second(), 7, 0));
    out.neg = static_cast<uint8_t>(bits(second(), 20, 20) | bits(second(), 22, 22) << 1);
    out.abs = static_cast<uint8_t>(bits(second(), 21, 21) | bits(second(), 23, 23) << 1);
  }
}

// A scalar register may stand in place of either VGPR. VOPC has a scalar destination here.
void Decoder::sdwa() {
  take_second(Instruction::Extra::kSdwa);
  const uint32_t word = second();
  const bool scalar0 = bits(word, 23, 23);
  out.src[0] = static_cast<uint16_t>(bits(word, 7, 0) + (scalar0 ? 0 : operand::kVgpr));
  if (out.sources > 1 && bits(word, 31, 31)) {
    out.src[1] = static_cast<uint16_t>(out.src[1] - operand::kVgpr);
  }
  out.neg = static_cast<uint8_t>(bits(word, 20, 20) | bits(word, 28, 28) << 1);
  out.abs = static_cast<uint8_t>(bits(word, 21, 21) | bits(word, 29, 29) << 1);
  if (out.format == Format::kVopc) {
    out.sdst = bits(word, 15, 15) ? field(word, 14, 8) : operand::kVcc;
    return;
  }
  out.clamp = bits(word, 13, 13);
  out.omod = static_cast<uint8_t>(bits(word, 15, 14));
}

void Decoder::vop2() {
  constexpr unsigned kMadmkF32 = 23, kMadakF32 = 24, kMadmkF16 = 36, kMadakF16 = 37;
  set(Format::kVop2, bits(first(), 30, 25));
  out.dst = vgpr(bits(first(), 24, 17));
  out.src[1] = vgpr(bits(first(), 16, 9));
  out.sources = 2;
  vector_source0(bits(first(), 8, 0));
  const unsigned op = out.opcode;
  if (op == kMadmkF32 || op == kMadakF32 || op == kMadmkF16 || op == kMadakF16) {
    out.sources = 3;
    out.src[2] = operand::kLiteral;
    if (op == kMadmkF32 || op == kMadmkF16) std::swap(out.src[1], out.src[2]);
    if (out.extra == Instruction::Extra::kNone) take_second(Instruction::Extra::kLiteral);
  }
}

void Decoder::vop1() {
  set(Format::kVop1, bits(first(), 16, 9));
  out.dst = vgpr(bits(first(), 24, 17));
  vector_source0(bits(first(), 8, 0));
  constexpr unsigned kAccvgprMov = 82;
  if (out.opcode == kAccvgprMov) {
    out.dst = vgpr(bits(first(), 24, 17), true);
    out.src[0] = vgpr(bits(first(), 7, 0), true);
  }
}

void Decoder::vopc() {
  set(Format::kVopc, bits(first(), 24, 17));
  out.sdst = operand::kVcc;
  out.src[1] = vgpr(bits(first(), 16, 9));
  out.sources = 2;
  vector_source0(bits(first(), 8, 0));
}

// VOP3B: opcodes that also write a scalar have its number where the others have op_sel and abs.
bool has_scalar_destination(unsigned opcode) {
  const bool carry = opcode >= 0x119 && opcode <= 0x11e;
  const bool div_scale_or_mad64 =
      opcode == 0x1e0 || opcode == 0x1e1 || opcode == 0x1e8 || opcode == 0x1e9;
  return carry || div_scale_or_mad64;
}

void Decoder::vop3() {
  set(Format::kVop3, bits(first(), 25, 16));
  out.dwords = 2;
  out.clamp = bits(first(), 15, 15);
  out.dst = vgpr(bits(first(), 7, 0));
  for (unsigned i = 0; i < 3; ++i) out.src[i] = field(second(), 9 * i + 8, 9 * i);
  out.sources = 3;
  out.omod = static_cast<uint8_t>(bits(second(), 28, 27));
  out.neg = static_cast<uint8_t>(bits(second(), 31, 29));
  if (has_scalar_destination(out.opcode)) {
    out.sdst = field(first(), 14, 8);
    return;
  }
  out.abs = static_cast<uint8_t>(bits(first(), 10, 8));
  out.op_sel = static_cast<uint8_t>(bits(first(), 14, 11));
  if (out.opcode < kVop3FirstVop2) out.sdst = field(first(), 7, 0);
}

void Decoder::vop3p() {
  constexpr unsigned kFirstMai = 62;
  set(Format::kVop3p, bits(first(), 22, 16));
  out.dwords = 2;
  out.sources = 3;
  out.clamp = bits(first(), 15, 15);
  out.neg_hi = static_cast<uint8_t>(bits(first(), 10, 8));
  out.op_sel = static_cast<uint8_t>(bits(first(), 13, 11));
  out.op_sel_hi = static_cast<uint8_t>(bits(second(), 28, 27) | bits(first(), 14, 14) << 2);
  out.neg = static_cast<uint8_t>(bits(second(), 31, 29));
  for (unsigned i = 0; i < 3; ++i) out.src[i] = field(second(), 9 * i + 8, 9 * i);
  out.dst = vgpr(bits(first(), 7, 0));
  if (out.opcode < kFirstMai) return;
  // The opcodes of these two determine the register files; the bits are ignored.
  constexpr unsigned kAccvgprRead = 88, kAccvgprWrite = 89;
  if (out.opcode == kAccvgprRead || out.opcode == kAccvgprWrite) {
    out.sources = 1;
    out.clamp = false;
    if (out.opcode == kAccvgprWrite) out.dst = vgpr(bits(first(), 7, 0), true);
    if (out.opcode == kAccvgprRead) out.src[0] = vgpr(bits(second(), 7, 0), true);
    return;
  }
  // MAI: acc_cd selects the file of C and D, acc that of A and B.
  const bool acc_cd = bits(first(), 15, 15);
  const auto in_file = [](uint16_t code, bool acc) {
    return code >= operand::kVgpr && acc ? vgpr(code - operand::kVgpr, true) : code;
  };
  out.clamp = false;
  out.dst = vgpr(bits(first(), 7, 0), acc_cd);
  out.src[0] = in_file(out.src[0], bits(second(), 27, 27));
  out.src[1] = in_file(out.src[1], bits(second(), 28, 28));
  // C of a sparse one is D, and the third source has indices.
  const bool sparse = out.isa == Isa::kGfx942 && out.name().starts_with("v_smfmac_");
  if (!sparse) out.src[2] = in_file(out.src[2], acc_cd);
}

void Decoder::ds() {
  set(Format::kDs, bits(first(), 24, 17));
  out.dwords = 2;
  const bool acc = bits(first(), 25, 25);
  out.offset0 = static_cast<uint8_t>(bits(first(), 7, 0));
  out.offset1 = static_cast<uint8_t>(bits(first(), 15, 8));
  out.immediate = static_cast<int32_t>(bits(first(), 15, 0));
  out.gds = bits(first(), 16, 16);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8), acc);
  out.data1 = vgpr(bits(second(), 23, 16), acc);
  out.dst = vgpr(bits(second(), 31, 24), acc);
}

void Decoder::flat() {
  constexpr Format kSegments[] = {Format::kFlat, Format::kScratch, Format::kGlobal, Format::kCount};
  constexpr unsigned kSaddrOff = 0x7f;
  const unsigned segment = bits(first(), 15, 14);
  set(kSegments[segment], bits(first(), 24, 18));
  out.dwords = 2;
  const bool acc = bits(second(), 23, 23);
  out.immediate =
      segment ? sign_extend(bits(first(), 12, 0), 13) : static_cast<int32_t>(bits(first(), 11, 0));
  out.glc = bits(first(), 16, 16);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8), acc);
  out.saddr = field(second(), 22, 16);
  out.uses_saddr = segment && out.saddr != kSaddrOff;
  // Of gfx942, a bit says whether scratch has an address in a VGPR, beside SADDR or alone.
  const bool bit13 = bits(first(), 13, 13);
  out.lds = bit13 && out.isa == Isa::kGfx90a;
  out.offen = out.isa == Isa::kGfx90a ? !out.uses_saddr : bit13;
  out.dst = vgpr(bits(second(), 31, 24), acc);
}

void Decoder::mubuf() {
  set(Format::kMubuf, bits(first(), 24, 18));
  out.lds = bits(first(), 16, 16);
  buffer();
}

void Decoder::mtbuf() {
  set(Format::kMtbuf, bits(first(), 18, 15));
  buffer();
}

void Decoder::buffer() {
  out.dwords = 2;
  out.immediate = static_cast<int32_t>(bits(first(), 11, 0));
  out.offen = bits(first(), 12, 12);
  out.idxen = bits(first(), 13, 13);
  out.glc = bits(first(), 14, 14);
  const bool acc = bits(second(), 23, 23);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8), acc);
  out.dst = out.data;
  out.resource = static_cast<uint16_t>(bits(second(), 20, 16) * 4);
  out.saddr = field(second(), 31, 24);
}

void Decoder::mimg() {
  set(Format::kMimg, bits(first(), 24, 18));
  out.dwords = 2;
  out.dmask = static_cast<uint8_t>(bits(first(), 11, 8));
  out.unnormalized = bits(first(), 12, 12);
  out.glc = bits(first(), 13, 13);
  out.array = bits(first(), 14, 14);
  out.a16 = bits(first(), 15, 15);
  out.tfe = bits(first(), 17, 17);  // LWE: there is no TFE
  out.d16 = bits(second(), 31, 31);
  out.address = vgpr(bits(second(), 7, 0));
  for (size_t i = 0; i < out.coordinates.size(); ++i)
    out.coordinates[i] = static_cast<uint16_t>(out.address + i);
  out.data = vgpr(bits(second(), 15, 8), bits(first(), 16, 16));
  out.dst = out.data;
  out.resource = static_cast<uint16_t>(bits(second(), 20, 16) * 4);
  out.sampler = static_cast<uint16_t>(bits(second(), 25, 21) * 4);
}

}  // namespace

Instruction decode(std::span<const uint32_t> words, Isa isa) {
  if (is_gfx11(isa)) return decode_gfx11(words);
  Decoder decoder{words};
  decoder.out.isa = isa;
  const uint32_t word = words[0];
  if (word >> 31 == 0) {
    if (bits(word, 31, 25) == 0x3f) {
      decoder.vop1();
    } else if (bits(word, 31, 25) == 0x3e) {
      decoder.vopc();
    } else {
      decoder.vop2();
    }
  } else if (word >> 30 == 2) {
    if (bits(word, 31, 23) == 0x17d) {
      decoder.sop1();
    } else if (bits(word, 31, 23) == 0x17e) {
      decoder.sopc();
    } else if (bits(word, 31, 23) == 0x17f) {
      decoder.sopp();
    } else if (word >> 28 == 0xb) {
      decoder.sopk();
    } else {
      decoder.sop2();
    }
  } else {
    switch (word >> 26) {
      case 0x30:
        decoder.smem();
        break;
      case 0x34:
        bits(word, 25, 23) == 7 ? decoder.vop3p() : decoder.vop3();
        break;
      case 0x36:
        decoder.ds();
        break;
      case 0x37:
        decoder.flat();
        break;
      case 0x38:
        decoder.mubuf();
        break;
      case 0x3a:
        decoder.mtbuf();
        break;
      case 0x3c:
        decoder.mimg();
        break;
      default:
        decoder.set(Format::kSopp, kMaxOpcodes);
    }
  }
  if (decoder.out.format == Format::kCount) decoder.set(Format::kSopp, kMaxOpcodes);
  if (decoder.out.name().empty()) decoder.out.dwords = 1;
  std::copy_n(words.begin(), std::min<size_t>(decoder.out.dwords, words.size()),
              decoder.out.words.begin());
  return decoder.out;
}

}  // namespace gpu::shader
