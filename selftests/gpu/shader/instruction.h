// SPDX-License-Identifier: GPL-2.0
// One decoded instruction.
#pragma once

#include <array>
#include <span>

#include "shader/opcodes.h"

namespace gpu::shader {

class Wave;
struct Instruction;
struct VectorOp;
using Handler = void (*)(Wave&, const Instruction&);

// Operand codes of the scalar and vector source fields ("SSRC", "SRC" in the ISA document).
// VGPRs are 256 and up; accumulation VGPRs are 512 and up, where a bit of the encoding says so.
// Those of GFX9; the decoder of gfx11 translates M0 and NULL. A source NULL is the constant 0, and
// nothing reads the register that a destination NULL names.
namespace operand {
constexpr unsigned kFlatScratch = 102;
constexpr unsigned kXnackMask = 104;
constexpr unsigned kVcc = 106;
constexpr unsigned kTtmp = 108;
constexpr unsigned kM0 = 124;
constexpr unsigned kExec = 126;
constexpr unsigned kZero = 128;
constexpr unsigned kNull = 128;
constexpr unsigned kSharedBase = 235;
constexpr unsigned kSharedLimit = 236;
constexpr unsigned kPrivateBase = 237;
constexpr unsigned kPrivateLimit = 238;
constexpr unsigned kSdwa = 249;
constexpr unsigned kDpp = 250;
constexpr unsigned kVccz = 251;
constexpr unsigned kExecz = 252;
constexpr unsigned kScc = 253;
constexpr unsigned kLiteral = 255;
constexpr unsigned kVgpr = 256;
constexpr unsigned kAccVgpr = 512;
// Where no operand code names it, because FLAT_SCRATCH is a hardware register (gfx11).
constexpr unsigned kHiddenFlatScratch = 144;
}  // namespace operand

struct Instruction {
  enum class Extra : uint8_t { kNone, kLiteral, kSdwa, kDpp };

  Isa isa = Isa::kGfx90a;
  Format format = Format::kSopp;
  uint16_t opcode = 0;
  uint8_t dwords = 1;
  Extra extra = Extra::kNone;
  std::array<uint32_t, 3> words = {};

  // ALU operands. A field that the format does not have is 0.
  uint16_t dst = 0;                  // scalar operand code, or VGPR as a source has it
  uint16_t sdst = kNoSdst;           // VOP3B, and VOPC as VOP3: scalar operand code
  std::array<uint16_t, 3> src = {};  // operand codes
  uint8_t sources = 0;
  uint8_t neg = 0, abs = 0;  // one bit a source
  uint8_t op_sel = 0, op_sel_hi = 0, neg_hi = 0;
  uint8_t omod = 0;
  bool clamp = false;
  bool dpp8 = false;            // kDpp: the word selects a lane of eight for each
  bool fetch_inactive = false;  // of DPP: lanes that are not active have values, too
  uint32_t literal = 0;         // also the word of SDWA and DPP
  int32_t immediate = 0;        // SIMM16, or the offset of a memory instruction, sign-extended

  // SMEM, DS, FLAT, MUBUF.
  uint16_t address = 0;  // VGPR, or SBASE as scalar operand code
  uint16_t data = 0, data1 = 0;
  uint16_t saddr = 0;  // SADDR of FLAT, SOFFSET of SMEM and MUBUF: operand code
  uint16_t resource = 0;
  uint8_t offset0 = 0, offset1 = 0;
  bool glc = false, offen = false, idxen = false, lds = false, gds = false, uses_saddr = false;
  // MIMG. Coordinates behind the last register follow in those behind it.
  std::array<uint16_t, 5> coordinates = {};
  uint16_t sampler = 0;
  uint8_t dmask = 0;
  uint8_t dimension = 0;  // DIM of gfx11
  bool array = false;     // DA of GFX9
  bool unnormalized = false, a16 = false, d16 = false, tfe = false, r128 = false;
  bool clears_half = false;  // a D16 load; Asic::sram_ecc

  Handler handler = nullptr;
  const VectorOp* op = nullptr;         // of the vector handlers
  const Instruction* second = nullptr;  // of VOPD, the other half

  static constexpr uint16_t kNoSdst = 0xffff;
  const std::string& name() const { return mnemonic(isa, format, opcode); }
};

// Decodes the instruction at the start of words; those of gfx11 have up to three words, others two.
// An opcode that does not exist decodes to one without a name, of one word. Of a VOPD, this is the
// first half.
Instruction decode(std::span<const uint32_t> words, Isa isa = Isa::kGfx90a);
Instruction decode_gfx11(std::span<const uint32_t> words);
// The second half of a VOPD.
Instruction decode_second(std::span<const uint32_t> words);

}  // namespace gpu::shader
