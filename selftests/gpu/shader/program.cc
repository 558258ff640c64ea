// SPDX-License-Identifier: GPL-2.0
// Control of the program: branches, waits, messages.
#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

void branch(Wave& wave, const Instruction& in) {
  wave.pc += static_cast<uint64_t>(int64_t{in.immediate} * 4);
}

template <typename F>
constexpr SpecialOp branch_if(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            if (F{}(wave)) branch(wave, in);
          }};
}

// Memory accesses complete in order and at once, so there is nothing to wait for.
void nop(Wave&, const Instruction&) {}

void end_program(Wave& wave, const Instruction&) { wave.stop = Stop::kEnded; }
void barrier(Wave& wave, const Instruction&) { wave.stop = Stop::kBarrier; }
void sleep(Wave& wave, const Instruction&) { wave.stop = Stop::kYield; }

// The PC has 48 bits. RADV's constant arrays show that nothing is above them: s_getpc_b64 gives the
// first words of a buffer resource, which has its stride there.
void getpc(Wave& wave, const Instruction& in) {
  constexpr uint64_t kPcMask = (uint64_t{1} << 48) - 1;
  wave.set_s64(in.dst, wave.pc & kPcMask);
}
uint64_t target_of(const Wave& wave, const Instruction& in) {
  return canonical(wave.scalar64(in.src[0], in) & ~uint64_t{3});
}
void setpc(Wave& wave, const Instruction& in) { wave.pc = target_of(wave, in); }
void swappc(Wave& wave, const Instruction& in) {
  const uint64_t target = target_of(wave, in);
  getpc(wave, in);
  wave.pc = target;
}
void call(Wave& wave, const Instruction& in) {
  getpc(wave, in);
  branch(wave, in);
}

// Without a trap handler llvm.debugtrap returns at once. The handler finds the s_trap itself. The
// privileged waves of gfx11 ignore it: compiled code informs the driver itself.
void trap(Wave& wave, const Instruction& in) {
  if (is_gfx11(in.isa)) return;
  constexpr int kDebugTrap = 3;
  if (wave.can_trap()) {
    wave.pc -= 4;
    return wave.enter_trap(static_cast<uint32_t>(in.immediate) & 0xff);
  }
  if (in.immediate == kDebugTrap) return;
  wave.refuse(amdgpu_criu::formatted("s_trap {}", in.immediate));
}

constexpr SpecialOp kOps[] = {
    {"s_nop", nop},
    {"s_waitcnt", nop},
    {"s_setprio", nop},
    {"s_waitcnt_vscnt", nop},
    {"s_waitcnt_vmcnt", nop},
    {"s_waitcnt_expcnt", nop},
    {"s_waitcnt_lgkmcnt", nop},
    {"s_waitcnt_depctr", nop},
    {"s_wait_idle", nop},
    {"s_delay_alu", nop},
    {"s_clause", nop},
    {"s_set_inst_prefetch_distance", nop},
    {"s_version", nop},
    {"s_gl1_inv", nop},
    {"buffer_gl0_inv", nop},
    {"buffer_gl1_inv", nop},
    {"s_icache_inv", nop},
    {"s_dcache_inv", nop},
    {"s_dcache_wb", nop},
    {"s_dcache_inv_vol", nop},
    {"s_dcache_wb_vol", nop},
    {"s_incperflevel", nop},
    {"s_decperflevel", nop},
    {"s_ttracedata", nop},
    {"s_wakeup", nop},
    {"buffer_wbl2", nop},
    {"buffer_invl2", nop},
    {"buffer_inv", nop},
    {"buffer_wbinvl1", nop},
    {"buffer_wbinvl1_vol", nop},
    {"s_endpgm", end_program},
    {"s_barrier", barrier},
    {"s_sleep", sleep},
    {"s_trap", trap},
    {"s_branch", branch},
    branch_if("s_cbranch_scc0", [](const Wave& wave) { return !wave.scc; }),
    branch_if("s_cbranch_scc1", [](const Wave& wave) { return wave.scc; }),
    branch_if("s_cbranch_vccz", [](const Wave& wave) { return wave.vcc() == 0; }),
    branch_if("s_cbranch_vccnz", [](const Wave& wave) { return wave.vcc() != 0; }),
    branch_if("s_cbranch_execz", [](const Wave& wave) { return wave.exec() == 0; }),
    branch_if("s_cbranch_execnz", [](const Wave& wave) { return wave.exec() != 0; }),
    {"s_getpc_b64", getpc},
    {"s_setpc_b64", setpc},
    {"s_swappc_b64", swappc},
    {"s_call_b64", call},
};

}  // namespace

std::span<const SpecialOp> program_ops() { return kOps; }

}  // namespace gpu::shader
