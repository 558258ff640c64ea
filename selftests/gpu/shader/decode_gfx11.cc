// SPDX-License-Identifier: GPL-2.0
// Encodings of gfx11: "RDNA3" ISA document, chapter 15.
#include <algorithm>

#include "shader/decode_fields.h"

namespace gpu::shader {
namespace {

constexpr unsigned kCodeNull = 124, kCodeM0 = 125;
constexpr unsigned kDpp8 = 233, kDpp8FetchInactive = 234;

uint16_t scalar(uint32_t code) {
  if (code == kCodeNull) return operand::kNull;
  return static_cast<uint16_t>(code == kCodeM0 ? operand::kM0 : code);
}

// Constants, apertures, SCC and the literal; not LDS_DIRECT and what other generations have.
bool is_source(uint32_t code) {
  return code <= 208 || (code >= operand::kSharedBase && code <= operand::kPrivateLimit) ||
         (code >= 240 && code <= 248) || code == operand::kScc || code >= operand::kLiteral;
}

// The operands of 16 bits that a VGPR of the short formats has one half of: a bit for each source,
// and bit 3 for the destination.
unsigned halves_of(std::string_view name) {
  constexpr unsigned kSource = 1, kDestination = 8, kAll = 15;
  if (name == "v_cvt_f16_f32" || name == "v_sat_pk_u8_i16") return kDestination;
  if (name == "v_cvt_f32_f16" || name == "v_cvt_i32_i16" || name == "v_cvt_u32_u16") return kSource;
  if (name == "v_dot2acc_f32_f16" || name == "v_pk_fmac_f16") return 0;
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  return ends("_f16") || ends("_b16") || ends("_u16") || ends("_i16") ? kAll : 0;
}

// Words are zero where the memory behind the instruction cannot be read.
struct Decoder {
  std::span<const uint32_t> words;
  Instruction out = {};
  bool exists = true;

  uint32_t word(size_t i) const { return i < words.size() ? words[i] : 0; }
  uint32_t first() const { return words[0]; }
  uint32_t second() const { return word(1); }

  void set(Format format, unsigned opcode, unsigned dwords = 1) {
    out.format = format;
    out.opcode = static_cast<uint16_t>(opcode);
    out.dwords = static_cast<uint8_t>(dwords);
  }
  // The word behind the others; operands share it.
  void take_word(Instruction::Extra extra) {
    if (out.extra != Instruction::Extra::kNone) return;
    out.extra = extra;
    out.literal = word(out.dwords++);
  }
  void source(unsigned i, uint32_t code) {
    exists = exists && is_source(code);
    out.src[i] = scalar(code);
    out.sources = static_cast<uint8_t>(std::max<unsigned>(out.sources, i + 1));
    if (code == operand::kLiteral) take_word(Instruction::Extra::kLiteral);
  }
  void first_vector_source(uint32_t code, bool has_modifiers);
  void split_halves();

  void sop();
  void smem();
  void short_vector();
  void vop3();
  void vop3p();
  void ds();
  void flat();
  void mubuf();
  void mimg();
};

// A word of DPP has modifiers only where the instruction has none itself.
void Decoder::first_vector_source(uint32_t code, bool has_modifiers) {
  const bool dpp8 = code == kDpp8 || code == kDpp8FetchInactive;
  if (!dpp8 && code != operand::kDpp) return source(0, code);
  out.sources = std::max<uint8_t>(out.sources, 1);
  take_word(Instruction::Extra::kDpp);
  out.src[0] = vgpr(bits(out.literal, 7, 0));
  out.dpp8 = dpp8;
  out.fetch_inactive = dpp8 ? code == kDpp8FetchInactive : bits(out.literal, 18, 18);
  if (dpp8 || has_modifiers) return;
  out.neg = static_cast<uint8_t>(bits(out.literal, 20, 20) | bits(out.literal, 22, 22) << 1);
  out.abs = static_cast<uint8_t>(bits(out.literal, 21, 21) | bits(out.literal, 23, 23) << 1);
}

void Decoder::sop() {
  if (bits(first(), 31, 23) == 0x17d) {
    set(Format::kSop1, bits(first(), 15, 8));
    out.dst = scalar(bits(first(), 22, 16));
    // A message is no operand.
    if (out.name().starts_with("s_sendmsg_rtn")) {
      out.immediate = static_cast<int32_t>(bits(first(), 7, 0));
    } else {
      source(0, bits(first(), 7, 0));
    }
  } else if (bits(first(), 31, 23) == 0x17e) {
    set(Format::kSopc, bits(first(), 22, 16));
    source(0, bits(first(), 7, 0));
    source(1, bits(first(), 15, 8));
  } else if (bits(first(), 31, 23) == 0x17f) {
    set(Format::kSopp, bits(first(), 22, 16));
    out.immediate = static_cast<int16_t>(bits(first(), 15, 0));
  } else if (first() >> 28 == 0xb) {
    set(Format::kSopk, bits(first(), 27, 23));
    out.dst = scalar(bits(first(), 22, 16));
    out.immediate = static_cast<int16_t>(bits(first(), 15, 0));
    if (out.name() == "s_setreg_imm32_b32") take_word(Instruction::Extra::kLiteral);
  } else {
    set(Format::kSop2, bits(first(), 29, 23));
    out.dst = scalar(bits(first(), 22, 16));
    source(0, bits(first(), 7, 0));
    source(1, bits(first(), 15, 8));
  }
}

void Decoder::smem() {
  set(Format::kSmem, bits(first(), 25, 18), 2);
  out.address = static_cast<uint16_t>(bits(first(), 5, 0) * 2);
  exists = exists && out.address != kCodeNull;
  out.data = scalar(bits(first(), 12, 6));
  out.glc = bits(first(), 14, 14);
  out.immediate = sign_extend(bits(second(), 20, 0), 21);
  out.saddr = scalar(bits(second(), 31, 25));
  out.uses_saddr = out.saddr != operand::kNull;
}

// VOP1, VOP2 and VOPC.
void Decoder::short_vector() {
  const unsigned kind = bits(first(), 31, 25);
  constexpr unsigned kVop1 = 0x3f, kVopc = 0x3e;
  if (kind == kVop1) {
    set(Format::kVop1, bits(first(), 16, 9));
  } else if (kind == kVopc) {
    set(Format::kVopc, bits(first(), 24, 17));
  } else {
    set(Format::kVop2, bits(first(), 30, 25));
  }
  if (kind != kVop1) {
    out.src[1] = vgpr(bits(first(), 16, 9));
    out.sources = 2;
  }
  const std::string& name = out.name();
  if (kind == kVopc) {
    out.sdst = name.starts_with("v_cmpx") ? operand::kExec : operand::kVcc;
  } else {
    out.dst = vgpr(bits(first(), 24, 17));
    if (name == "v_readfirstlane_b32") out.dst = vgpr(scalar(bits(first(), 24, 17)));
  }
  first_vector_source(bits(first(), 8, 0), false);
  const bool multiplies_by_literal = name.starts_with("v_fmamk");
  if (multiplies_by_literal || name.starts_with("v_fmaak")) {
    out.sources = 3;
    out.src[2] = operand::kLiteral;
    if (multiplies_by_literal) std::swap(out.src[1], out.src[2]);
    take_word(Instruction::Extra::kLiteral);
  }
  split_halves();
}

void Decoder::split_halves() {
  constexpr unsigned kHigh = 128;
  const unsigned halves = halves_of(out.name());
  const auto split = [&](uint16_t& code, unsigned bit) {
    if (!(halves >> bit & 1) || code < operand::kVgpr + kHigh) return;
    code = static_cast<uint16_t>(code - kHigh);
    out.op_sel |= static_cast<uint8_t>(1 << bit);
  };
  for (unsigned i = 0; i < out.src.size(); ++i) split(out.src[i], i);
  if (out.format != Format::kVopc) split(out.dst, 3);
}

// Opcodes that also write a scalar have its number where the others have op_sel and abs.
bool has_scalar_destination(unsigned opcode) {
  const bool carry = opcode >= 0x120 && opcode <= 0x122;
  return carry || (opcode >= 0x2fc && opcode <= 0x302);
}

void Decoder::vop3() {
  set(Format::kVop3, bits(first(), 25, 16), 2);
  out.clamp = bits(first(), 15, 15);
  out.dst = vgpr(bits(first(), 7, 0));
  first_vector_source(bits(second(), 8, 0), true);
  // An operand that the instruction does not have is 0.
  source(1, bits(second(), 17, 9));
  source(2, bits(second(), 26, 18));
  out.omod = static_cast<uint8_t>(bits(second(), 28, 27));
  out.neg = static_cast<uint8_t>(bits(second(), 31, 29));
  if (has_scalar_destination(out.opcode)) {
    out.sdst = scalar(bits(first(), 14, 8));
    return;
  }
  out.abs = static_cast<uint8_t>(bits(first(), 10, 8));
  out.op_sel = static_cast<uint8_t>(bits(first(), 14, 11));
  constexpr unsigned kFirstVop2 = 0x100;
  if (out.opcode < kFirstVop2) out.sdst = scalar(bits(first(), 7, 0));
  if (out.name() == "v_readlane_b32") out.dst = vgpr(scalar(bits(first(), 7, 0)));
}

void Decoder::vop3p() {
  set(Format::kVop3p, bits(first(), 22, 16), 2);
  out.clamp = bits(first(), 15, 15);
  out.neg_hi = static_cast<uint8_t>(bits(first(), 10, 8));
  out.op_sel = static_cast<uint8_t>(bits(first(), 13, 11));
  out.op_sel_hi = static_cast<uint8_t>(bits(second(), 28, 27) | bits(first(), 14, 14) << 2);
  out.neg = static_cast<uint8_t>(bits(second(), 31, 29));
  out.dst = vgpr(bits(first(), 7, 0));
  first_vector_source(bits(second(), 8, 0), true);
  source(1, bits(second(), 17, 9));
  source(2, bits(second(), 26, 18));
}

void Decoder::ds() {
  set(Format::kDs, bits(first(), 25, 18), 2);
  out.offset0 = static_cast<uint8_t>(bits(first(), 7, 0));
  out.offset1 = static_cast<uint8_t>(bits(first(), 15, 8));
  out.immediate = static_cast<int32_t>(bits(first(), 15, 0));
  out.gds = bits(first(), 17, 17);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8));
  out.data1 = vgpr(bits(second(), 23, 16));
  out.dst = vgpr(bits(second(), 31, 24));
}

void Decoder::flat() {
  constexpr Format kSegments[] = {Format::kFlat, Format::kScratch, Format::kGlobal, Format::kCount};
  const unsigned segment = bits(first(), 17, 16);
  exists = exists && segment < 3;
  set(segment < 3 ? kSegments[segment] : Format::kFlat, bits(first(), 24, 18), 2);
  out.immediate =
      segment ? sign_extend(bits(first(), 12, 0), 13) : static_cast<int32_t>(bits(first(), 11, 0));
  out.glc = bits(first(), 14, 14);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8));
  out.saddr = scalar(bits(second(), 22, 16));
  out.uses_saddr = segment && out.saddr != operand::kNull;
  out.offen = bits(second(), 23, 23);
  out.dst = vgpr(bits(second(), 31, 24));
}

void Decoder::mubuf() {
  const bool typed = first() >> 26 == 0x3a;
  set(typed ? Format::kMtbuf : Format::kMubuf,
      typed ? bits(first(), 18, 15) : bits(first(), 25, 18), 2);
  out.immediate = static_cast<int32_t>(bits(first(), 11, 0));
  out.glc = bits(first(), 14, 14);
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8));
  out.dst = out.data;
  out.resource = static_cast<uint16_t>(bits(second(), 20, 16) * 4);
  out.lds = bits(second(), 21, 21);  // TFE: status behind the data
  out.offen = bits(second(), 22, 22);
  out.idxen = bits(second(), 23, 23);
  source(0, bits(second(), 31, 24));
  out.saddr = out.src[0];
}

// With NSA, each coordinate has a register of its own.
void Decoder::mimg() {
  const bool apart = bits(first(), 0, 0);
  set(Format::kMimg, bits(first(), 25, 18), apart ? 3 : 2);
  out.dimension = static_cast<uint8_t>(bits(first(), 4, 2));
  out.unnormalized = bits(first(), 7, 7);
  out.dmask = static_cast<uint8_t>(bits(first(), 11, 8));
  out.glc = bits(first(), 14, 14);
  out.r128 = bits(first(), 15, 15);
  out.a16 = bits(first(), 16, 16);
  out.d16 = bits(first(), 17, 17);
  out.tfe = bits(second(), 21, 21) || bits(second(), 22, 22);  // or LWE
  out.address = vgpr(bits(second(), 7, 0));
  out.data = vgpr(bits(second(), 15, 8));
  out.dst = out.data;
  out.resource = static_cast<uint16_t>(bits(second(), 20, 16) * 4);
  out.sampler = static_cast<uint16_t>(bits(second(), 30, 26) * 4);
  out.coordinates[0] = out.address;
  for (unsigned i = 1; i < out.coordinates.size(); ++i)
    out.coordinates[i] =
        apart ? vgpr(word(2) >> 8 * (i - 1) & 0xff) : static_cast<uint16_t>(out.address + i);
}

// The words of a VOPD are those of one operation of two, or three, sources for each half. The
// destinations have different parity.
Instruction half_of_vopd(std::span<const uint32_t> words, bool is_second) {
  Decoder decoder{words};
  Instruction& out = decoder.out;
  out.isa = Isa::kGfx1100;
  const uint32_t first = words[0], second = decoder.second();
  const uint32_t x = bits(first, 25, 22), y = bits(first, 21, 17), dst_x = bits(second, 31, 24);
  decoder.set(Format::kVopd, is_second ? y : x, 2);
  // Either half may have the literal.
  const auto has_literal = [](uint32_t code, unsigned opcode) {
    constexpr unsigned kFmaak = 1, kFmamk = 2;
    return code == operand::kLiteral || opcode == kFmaak || opcode == kFmamk;
  };
  if (has_literal(bits(first, 8, 0), x) || has_literal(bits(second, 8, 0), y))
    decoder.take_word(Instruction::Extra::kLiteral);
  decoder.source(0, bits(is_second ? second : first, 8, 0));
  out.src[1] = vgpr(bits(is_second ? second : first, 16, 9));
  out.sources = 2;
  out.dst = vgpr(is_second ? bits(second, 23, 17) << 1 | (~dst_x & 1) : dst_x);
  const std::string& name = out.name();
  const bool multiplies_by_literal = name == "v_dual_fmamk_f32";
  if (multiplies_by_literal || name == "v_dual_fmaak_f32") {
    out.sources = 3;
    out.src[2] = operand::kLiteral;
    if (multiplies_by_literal) std::swap(out.src[1], out.src[2]);
  }
  if (name == "v_dual_mov_b32") out.sources = 1;
  if (!decoder.exists) out.opcode = kMaxOpcodes;
  if (out.name().empty()) out.dwords = 1;
  std::copy_n(words.begin(), std::min<size_t>(out.dwords, words.size()), out.words.begin());
  return out;
}

constexpr unsigned kVopdBits = 0x32;

}  // namespace

Instruction decode_second(std::span<const uint32_t> words) { return half_of_vopd(words, true); }

Instruction decode_gfx11(std::span<const uint32_t> words) {
  Decoder decoder{words};
  Instruction& out = decoder.out;
  out.isa = Isa::kGfx1100;
  const uint32_t word = words[0];
  if (word >> 31 == 0) {
    decoder.short_vector();
  } else if (word >> 30 == 2) {
    decoder.sop();
  } else {
    switch (word >> 26) {
      case 0x33:
        if (bits(word, 25, 24)) decoder.exists = false;
        decoder.vop3p();
        break;
      case 0x35:
        decoder.vop3();
        break;
      case 0x36:
        decoder.ds();
        break;
      case 0x37:
        decoder.flat();
        break;
      case 0x38:
      case 0x3a:
        decoder.mubuf();
        break;
      case 0x3c:
        decoder.mimg();
        break;
      case 0x3d:
        decoder.smem();
        break;
      case kVopdBits:
        out = half_of_vopd(words, false);
        if (decode_second(words).name().empty()) decoder.exists = false;
        break;
      default:
        decoder.exists = false;
    }
  }
  if (!decoder.exists) decoder.set(Format::kSopp, kMaxOpcodes);
  if (out.name().empty()) out.dwords = 1;
  std::copy_n(words.begin(), std::min<size_t>(out.dwords, words.size()), out.words.begin());
  return out;
}

}  // namespace gpu::shader
