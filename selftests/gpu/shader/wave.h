// SPDX-License-Identifier: GPL-2.0
// The state of a wave, and of its work-group.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engines/packets.h"
#include "shader/gws.h"
#include "shader/instruction.h"
#include "shader/memory_view.h"
#include "shader/numbers.h"

namespace gpu::shader {

// Of the widest wave. Waves of gfx11 have 64 lanes or 32.
constexpr unsigned kLanes = 64;
// Every wave of GFX9 has the same number: s0 to s101, FLAT_SCRATCH, XNACK_MASK, VCC, and four
// without a name. Waves of gfx11 have s0 to s105 and VCC.
constexpr unsigned kSgprs = 112;
constexpr unsigned kGfx11Sgprs = 108;

// Calls use(lane) for each lane of a wave, in blocks of a number that the compiler knows.
template <typename Use>
[[gnu::always_inline]] inline void each_lane(size_t lanes, Use use) {
  constexpr size_t kBlock = 32;
  for (size_t block = 0; block < lanes; block += kBlock) {
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (size_t i = 0; i < kBlock; ++i) use(block + i);
  }
}

struct alignas(64) Row {
  uint32_t lane[kLanes];
};

// One operand of all lanes. 64-bit operands are gathered from two rows.
union Lanes {
  alignas(64) uint32_t narrow[kLanes];
  uint64_t wide[kLanes];
};

// STATUS and TRAPSTS bits, as gc_9_4_2_sh_mask.h and gc_11_0_0_sh_mask.h name them.
namespace status {
constexpr uint32_t kScc = 1 << 0;
constexpr uint32_t kPriv = 1 << 5;
constexpr uint32_t kTrapEn = 1 << 6;
constexpr uint32_t kExecz = 1 << 9;
constexpr uint32_t kVccz = 1 << 10;
constexpr uint32_t kInTg = 1 << 11;
constexpr uint32_t kHalt = 1 << 13;
constexpr uint32_t kValid = 1 << 16;
constexpr uint32_t kNoVgprs = 1 << 24;  // gfx11: given back, before the wave ends
// Computed when they are read.
constexpr uint32_t kDerived = kScc | kExecz | kVccz;
}  // namespace status

namespace trapsts {
constexpr uint32_t kMemoryViolation = 1 << 8;
constexpr uint32_t kSaveContext = 1 << 10;
constexpr uint32_t kIllegalInstruction = 1 << 11;
constexpr uint32_t kXnackError = 1 << 28;  // with kMemoryViolation: a page fault
}  // namespace trapsts

// The driver's trap handler of a VMID's waves (SQ_SHADER_TBA, SQ_SHADER_TMA), and whether SPI
// passes it the place of a wave in its dispatch (SPI_GDBG_PER_VMID_CNTL.TRAP_EN).
struct TrapHandler {
  uint64_t tba = 0;  // 0: there is none
  uint64_t tma = 0;
  bool place_in_ttmps = false;

  // The second instruction of the handler is its entry for waves to be restored.
  uint64_t restore_entry() const { return tba + 4; }
};

struct WorkGroup {
  std::array<uint32_t, 3> id = {};
  std::vector<std::byte> lds;
  unsigned waves = 0;       // that have not ended
  unsigned at_barrier = 0;  // of them
  unsigned unit = 0;        // of Units
};

// Apertures of FLAT addresses (SH_MEM_BASES).
struct Apertures {
  uint64_t shared = uint64_t{1} << 48;
  uint64_t scratch = uint64_t{2} << 48;
  static constexpr uint64_t kSize = uint64_t{1} << 32;
};

// The reason why a wave does not continue.
enum class Stop : uint8_t {
  kNone,
  kYield,
  kBarrier,
  kGws,
  kMessage,
  kEnded,
  kSaved,
  kIllegal,
  kFault,      // a page, which Memory has reported
  kViolation,  // no such address or resource at all
};

class Wave {
 public:
  // Arch VGPRs and accumulation VGPRs are one file; an operand may name registers beyond those
  // that the wave has allocated, and then it finds private ones here.
  static constexpr unsigned kRows = 256 + 256 + 32;

  Wave() : rows_(kRows) {}

  // Zeroes everything.
  void reset(WorkGroup& group, MemoryView& memory, unsigned vgprs, unsigned accum_offset,
             Isa isa = Isa::kGfx90a, unsigned lanes = kLanes);

  unsigned lanes() const { return lanes_; }
  uint64_t lane_mask() const { return lane_mask_; }

  // On gfx11 every instruction is privileged, those of the kernel, too.
  bool privileged() const { return status & status::kPriv; }
  // A halted wave executes only within the trap handler.
  bool halted() const { return status & status::kHalt && !in_handler; }
  uint32_t status_word() const {
    return status | (scc ? status::kScc : 0) | (exec() ? 0 : status::kExecz) |
           (vcc() ? 0 : status::kVccz);
  }
  bool can_trap() const { return status & status::kTrapEn && !in_handler; }
  // The next instruction is the trap handler's first.
  void enter_trap(uint32_t trap_id);
  // The next instruction is the handler's, at address.
  void enter_handler(uint64_t address) {
    status |= status::kPriv;
    in_handler = true;
    pc = address;
  }

  uint32_t s(unsigned code) const { return sgpr[code]; }
  void set_s(unsigned code, uint32_t value) { sgpr[code] = value; }
  uint64_t s64(unsigned code) const { return join(sgpr[code], sgpr[code + 1]); }
  void set_s64(unsigned code, uint64_t value) {
    sgpr[code] = low32(value);
    sgpr[code + 1] = high32(value);
  }
  // The high halves of both are registers like others in a wave of 32 lanes.
  uint64_t exec() const { return s64(operand::kExec) & lane_mask_; }
  uint64_t vcc() const { return s64(operand::kVcc) & lane_mask_; }
  // A mask of lanes has as many bits as the wave has lanes.
  uint64_t mask(unsigned code, const Instruction& in) const {
    return lanes_ == kLanes ? scalar64(code, in) : scalar(code, in);
  }
  void set_mask(unsigned code, uint64_t value) {
    lanes_ == kLanes ? set_s64(code, value) : set_s(code, low32(value));
  }
  bool active(unsigned lane) const { return exec() >> lane & 1; }
  // The lanes for which an access to memory is repeated; 0: none is. The trap handler saves and
  // restores XNACK_MASK, and has no such lanes itself.
  uint64_t repeated_lanes() const { return in_handler || is_gfx11_ ? 0 : s64(operand::kXnackMask); }
  uint64_t flat_scratch() const { return s64(flat_scratch_code()); }
  void set_flat_scratch(uint64_t base) { set_s64(flat_scratch_code(), base); }

  // code: as a vector source names it, 256 and up. Consecutive registers are consecutive rows.
  Row& row(unsigned code) {
    return rows_[code >= operand::kAccVgpr ? accum_offset + code - operand::kAccVgpr
                                           : code - operand::kVgpr];
  }

  // Scalar operands, and constants as an operand of 32 or 64 bits has them.
  uint32_t scalar(unsigned code, const Instruction& in) const;
  uint64_t scalar64(unsigned code, const Instruction& in, bool is_float = false) const;

  void refuse(std::string why) {
    stop = Stop::kIllegal;
    complaint = std::move(why);
  }
  void fault() { stop = Stop::kFault; }

  // By operand code: SGPRs, VCC, TTMPs, M0, EXEC; what instructions write to NULL; FLAT_SCRATCH.
  std::array<uint32_t, operand::kHiddenFlatScratch + 2> sgpr = {};
  uint64_t pc = 0;  // of the next instruction
  bool scc = false;
  bool in_handler = false;
  uint32_t mode = 0;
  uint32_t status = 0;  // without the derived bits
  uint32_t trapsts = 0;
  uint32_t ib_sts = 0;
  unsigned vgprs = 0;  // allocated, of both kinds
  unsigned accum_offset = 0;
  WorkGroup* group = nullptr;
  MemoryView* memory = nullptr;
  Apertures apertures;
  TrapHandler trap;
  uint32_t message = 0;  // of s_sendmsg
  GwsRequest gws;
  uint32_t scoreboard = 0;  // of its scratch
  uint32_t hw_id = 0;
  uint32_t doorbell_id = 0;
  uint32_t xcc = 0;
  uint64_t lanes_left = 0;  // that the last access to memory has not visited
  Stop stop = Stop::kNone;
  std::string complaint;

 private:
  unsigned flat_scratch_code() const {
    return is_gfx11_ ? operand::kHiddenFlatScratch : operand::kFlatScratch;
  }

  std::vector<Row> rows_;
  unsigned lanes_ = kLanes;
  uint64_t lane_mask_ = ~uint64_t{0};
  bool is_gfx11_ = false;
};

}  // namespace gpu::shader
