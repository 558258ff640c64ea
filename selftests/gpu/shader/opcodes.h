// SPDX-License-Identifier: GPL-2.0
// The opcodes by encoding format, under the mnemonics of the "AMD Instinct MI200", "MI300" and
// "RDNA3" ISA documents without the suffixes _e32, _e64, _sdwa and _dpp. The numbers agree with
// LLVM's disassembler, which a test checks for each of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shader/isa.h"

namespace gpu::shader {

enum class Format : uint8_t {
  kSop2,
  kSop1,
  kSopk,
  kSopc,
  kSopp,
  kSmem,
  kVop2,
  kVop1,
  kVopc,
  kVop3,  // its first opcodes are those of VOPC, VOP2 and VOP1
  kVop3p,
  kVopd,  // gfx11: either half of an instruction with two operations
  kDs,
  kFlat,
  kScratch,
  kGlobal,
  kMubuf,
  kMtbuf,
  kMimg,
  kCount,
};

// Of GFX9.
constexpr unsigned kVop3FirstVop2 = 0x100;
constexpr unsigned kVop3FirstVop1 = 0x140;
constexpr unsigned kVop3First = 0x1c0;
constexpr unsigned kMaxOpcodes = 1024;

// Empty when the format has no such opcode.
const std::string& mnemonic(Isa isa, Format format, unsigned opcode);

}  // namespace gpu::shader
