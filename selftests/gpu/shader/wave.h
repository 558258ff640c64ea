// SPDX-License-Identifier: GPL-2.0
// The state of a wave of 64 lanes, and of its work-group.
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

constexpr unsigned kLanes = 64;
// Every wave has the same number: s0 to s101, FLAT_SCRATCH, XNACK_MASK, VCC, and four without a
// name.
constexpr unsigned kSgprs = 112;
struct alignas(64) Row {
  uint32_t lane[kLanes];
};

// One operand of all lanes. 64-bit operands are gathered from two rows.
union Lanes {
  alignas(64) uint32_t narrow[kLanes];
  uint64_t wide[kLanes];
};

// STATUS and TRAPSTS bits, as gc_9_4_2_sh_mask.h names them.
namespace status {
constexpr uint32_t kScc = 1 << 0;
constexpr uint32_t kPriv = 1 << 5;
constexpr uint32_t kTrapEn = 1 << 6;
constexpr uint32_t kExecz = 1 << 9;
constexpr uint32_t kVccz = 1 << 10;
constexpr uint32_t kInTg = 1 << 11;
constexpr uint32_t kHalt = 1 << 13;
constexpr uint32_t kValid = 1 << 16;
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
  void reset(WorkGroup& group, MemoryView& memory, unsigned vgprs, unsigned accum_offset);

  bool privileged() const { return status & status::kPriv; }
  // A halted wave executes only within the trap handler.
  bool halted() const { return status & status::kHalt && !privileged(); }
  uint32_t status_word() const {
    return status | (scc ? status::kScc : 0) | (exec() ? 0 : status::kExecz) |
           (vcc() ? 0 : status::kVccz);
  }
  bool can_trap() const { return status & status::kTrapEn && !privileged(); }
  // The next instruction is the trap handler's first.
  void enter_trap(uint32_t trap_id);

  uint32_t s(unsigned code) const { return sgpr[code]; }
  void set_s(unsigned code, uint32_t value) { sgpr[code] = value; }
  uint64_t s64(unsigned code) const { return join(sgpr[code], sgpr[code + 1]); }
  void set_s64(unsigned code, uint64_t value) {
    sgpr[code] = low32(value);
    sgpr[code + 1] = high32(value);
  }
  uint64_t exec() const { return s64(operand::kExec); }
  uint64_t vcc() const { return s64(operand::kVcc); }
  bool active(unsigned lane) const { return exec() >> lane & 1; }
  // The lanes for which an access to memory is repeated; 0: none is. The trap handler saves and
  // restores XNACK_MASK, and has no such lanes itself.
  uint64_t repeated_lanes() const { return privileged() ? 0 : s64(operand::kXnackMask); }

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

  std::array<uint32_t, 132> sgpr = {};  // by operand code: SGPRs, VCC, TTMPs, M0, EXEC
  uint64_t pc = 0;                      // of the next instruction
  bool scc = false;
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
  uint32_t xcc = 0;
  uint64_t lanes_left = 0;  // that the last access to memory has not visited
  Stop stop = Stop::kNone;
  std::string complaint;

 private:
  std::vector<Row> rows_;
};

}  // namespace gpu::shader
