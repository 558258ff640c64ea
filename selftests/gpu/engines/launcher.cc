// SPDX-License-Identifier: GPL-2.0
#include "engines/launcher.h"

#include <algorithm>
#include <iterator>

#include "engines/hqd.h"
#include "shader/cores.h"

namespace gpu {
namespace {

constexpr unsigned kTurnInstructions = 1 << 15;

// The control stack of an XCC, in the memory of the process or one page behind the MQD
// (kfd_mqd_manager_v9.c, allocate_mqd).
struct Stack {
  Space space;
  uint64_t address;

  Stack(const HqdState& state, unsigned xcc, Space process, uint64_t mqd) {
    constexpr uint64_t kAfterMqd = 4096;
    const bool in_area = state.layout.stack_in_area;
    space = in_area ? process : kKernelSpace;
    address = in_area ? state.xccs[xcc].save_area : mqd + xcc * uint64_t{state.stride} + kAfterMqd;
  }
};

// COMPUTE_TMPRING_SIZE: the scratch of one XCC. On gfx11 it counts the waves of one engine.
struct Tmpring {
  Tmpring(uint32_t word, const Asic& asic)
      : waves(bits(word, 11, 0)), wave_bytes(uint64_t{bits(word, 24, 12)} << 10) {
    if (!is_gfx11(asic.isa)) return;
    waves *= asic.shader_engines;
    wave_bytes = uint64_t{bits(word, 26, 12)} << 8;
  }
  uint64_t bytes() const { return waves * wave_bytes; }

  uint32_t waves;
  uint64_t wave_bytes;
};

// Which of the units of an array that are not fused off COMPUTE_STATIC_THREAD_MGMT enables; two
// arrays share a register.
uint32_t enabled_units(const ComputeRegisters& registers, unsigned engine, unsigned array) {
  using Registers = ComputeRegisters;
  const unsigned word =
      engine < 2 ? Registers::kUnitsSe0 + engine : Registers::kUnitsSe2 + engine - 2;
  return registers.words[word] >> array * 16 & 0xffff;
}

}  // namespace

Launcher::Launcher(Context& context, const Process& process, const ComputeRegisters& registers,
                   uint32_t doorbell_id)
    : context_(context), process_(process), doorbell_id_(doorbell_id), registers_(registers) {
  gws_.resources = process.gws;
}

// The dimensions give the end of the grid, which starts at COMPUTE_START.
shader::DispatchSpec Launcher::spec(const Share& share) {
  using Registers = ComputeRegisters;
  const auto& words = share.registers.words;
  shader::DispatchSpec spec = {.rsrc1 = words[Registers::kRsrc1],
                               .rsrc2 = words[Registers::kRsrc2],
                               .rsrc3 = words[context_.asic.compute_mqd.rsrc3],
                               .apertures = process_.apertures,
                               .trap = process_.trap,
                               .save_area = share.save_area,
                               .gws = &gws_,
                               .packet_index = packet_index_,
                               .doorbell_id = doorbell_id_,
                               .xcc = context_.xcc + share.xcc,
                               .share = share.turn,
                               .shares = static_cast<unsigned>(shares_.size())};
  spec.code = canonical(join(words[Registers::kPgmLo], words[Registers::kPgmLo + 1]) << 8);
  const uint32_t how = words[Registers::kInitiator];
  const auto end = share.registers.three(Registers::kDimX);
  const auto threads = share.registers.three(Registers::kNumThreadX);
  if (!(how & initiator::kForceStartAt000))
    spec.first_group = share.registers.three(Registers::kStartX);
  for (unsigned axis = 0; axis < 3; ++axis) {
    const uint32_t size = bits(threads[axis], 15, 0), last_size = bits(threads[axis], 31, 16);
    const bool partial = how & initiator::kPartialGroups && last_size && end[axis];
    spec.group_size[axis] = size;
    spec.grid[axis] = how & initiator::kUseThreadDimensions ? end[axis]
                      : partial                             ? (end[axis] - 1) * size + last_size
                                                            : end[axis] * size;
  }
  std::copy_n(words.begin() + Registers::kUserData0, spec.user_data.size(), spec.user_data.begin());
  spec.lds_bytes = bits(spec.rsrc2, 23, 15) * shader::kLdsGranule;
  if (is_gfx11(context_.asic.isa) && how & initiator::kWave32) spec.lanes = 32;
  const Tmpring tmpring(words[Registers::kTmpringSize], context_.asic);
  spec.scratch_waves = tmpring.waves;
  spec.engines = context_.asic.shader_engines;
  spec.scratch_base = join(words[Registers::kScratchBase], words[Registers::kScratchBase + 1]) << 8;
  spec.scratch_wave_bytes = tmpring.wave_bytes;
  set_units(spec, share);
  return spec;
}

void Launcher::set_units(shader::DispatchSpec& spec, const Share& share) const {
  const Asic& asic = context_.asic;
  spec.max_waves = asic.units_per_xcc() * shader::Units::kWaves;
  spec.units.clear();
  for (unsigned engine = 0; engine < asic.shader_engines; ++engine) {
    const uint32_t fused = asic.fused_units.empty() ? 0 : asic.fused_units[engine];
    for (unsigned array = 0; array < asic.arrays_per_engine; ++array) {
      uint32_t enabled = enabled_units(share.registers, engine, array);
      for (unsigned unit = 0; unit < asic.units_per_array; ++unit) {
        if (fused >> unit & 1) continue;
        if (enabled & 1) spec.units.push_back({engine, array, unit});
        enabled >>= 1;
      }
    }
  }
  // Work-groups go to the shader engines in turn.
  std::ranges::stable_sort(spec.units, {}, &shader::UnitId::unit);
}

Memory& Launcher::memory_of(const Share& share) const {
  return context_.memory_of(context_.xcc + share.xcc);
}

bool Launcher::has_waves() const {
  return std::ranges::any_of(shares_, [](const Share& share) { return share.dispatch != nullptr; });
}

void Launcher::set_scratch(uint64_t base) {
  registers_.words[ComputeRegisters::kScratchBase] = low32(base >> 8);
  registers_.words[ComputeRegisters::kScratchBase + 1] = high32(base >> 8);
  scratch_per_xcc_ = true;
}

amdgpu_criu::Status Launcher::start(Space space, uint32_t packet_index) {
  packet_index_ = packet_index;
  // The log then shows which dispatches an instruction that is missing stops.
  context_.cores.forget_reasons();
  const bool per_xcc = std::exchange(scratch_per_xcc_, false);
  for (Share& share : shares_) {
    if (auto started = start_share(share, space, per_xcc); !started.ok()) {
      end_all(State::kDone);
      return started;
    }
  }
  return {};
}

amdgpu_criu::Status Launcher::start_share(Share& share, Space space, bool scratch_per_xcc) {
  using Registers = ComputeRegisters;
  const ComputeRegisters own = share.registers;
  share.registers = registers_;
  if (share.xcc) share.registers.take_units(own);
  auto& words = share.registers.words;
  if (scratch_per_xcc) {
    const uint64_t scratch =
        join(words[Registers::kScratchBase], words[Registers::kScratchBase + 1]) +
        (share.xcc * Tmpring(words[Registers::kTmpringSize], context_.asic).bytes() >> 8);
    words[Registers::kScratchBase] = low32(scratch);
    words[Registers::kScratchBase + 1] = high32(scratch);
  }
  share.suspended = false;
  share.dispatch =
      TRY(shader::Dispatch::create(context_.cores, memory_of(share), space, spec(share)));
  return {};
}

Launcher::State Launcher::end_all(State state) {
  for (Share& share : shares_) {
    share.dispatch.reset();
    share.suspended = false;
  }
  return state;
}

Launcher::State Launcher::run(Share& share) {
  const State state = share.dispatch->run(kTurnInstructions);
  std::ranges::copy(share.dispatch->take_interrupts(), std::back_inserter(interrupts_));
  if (state == State::kRunning || state == State::kHalted) return state;
  complaint_ = share.dispatch->complaint();
  share.left = {.stack = {}, .restart = share.dispatch->end_of_grid()};
  share.suspended = state == State::kSuspended;
  if (share.suspended) share.left = share.dispatch->suspended();
  share.dispatch.reset();
  return state;
}

// The XCCs run at the same time. What stops a wave stops all.
Launcher::State Launcher::run(Budget& budget) {
  bool running = false, halted = false;
  for (Share& share : shares_) {
    if (!share.dispatch) continue;
    const State state = run(share);
    running |= state == State::kRunning;
    halted |= state == State::kHalted;
    if (state == State::kIllegal || state == State::kFault) return end_all(state);
  }
  for (const std::string& text : context_.cores.take_complaints()) context_.report(text);
  budget.use_bytes(budget.bytes);
  if (running || halted) return running ? State::kRunning : State::kHalted;
  const bool suspended = std::ranges::any_of(shares_, &Share::suspended);
  return suspended ? State::kSuspended : State::kDone;
}

void Launcher::preempt() {
  for (Share& share : shares_) {
    auto& dispatch = share.dispatch;
    if (dispatch && (dispatch->can_suspend() || !dispatch->waves_in_flight())) dispatch->suspend();
  }
}

amdgpu_criu::Status Launcher::save(HqdState& state, Space space, uint64_t mqd) {
  const uint32_t size = state.at(mqd::kStackSize);
  state.gws = gws_.pack();
  for (size_t i = 0; i < state.xccs.size(); ++i) {
    HqdState::Xcc& xcc = state.xccs[i];
    const ComputeRegisters own = xcc.compute;
    xcc.compute = registers_;
    if (i) xcc.compute.take_units(own);
    xcc.stack_offset = xcc.wave_offset = size;
    xcc.persistent &= ~persistent::kState;
  }
  if (!std::ranges::any_of(shares_, &Share::suspended)) return {};
  for (const Share& share : shares_) TRY(save_share(share, state, space, mqd));
  end_all(State::kSuspended);
  return {};
}

// A share that has ended before the others restarts at its end.
amdgpu_criu::Status Launcher::save_share(const Share& share, HqdState& state, Space space,
                                         uint64_t mqd) {
  using Registers = ComputeRegisters;
  const uint32_t size = state.at(mqd::kStackSize);
  HqdState::Xcc& xcc = state.xccs[share.xcc];
  const auto& stack = share.left.stack;
  const auto used = static_cast<uint32_t>(stack.size() * 4);
  const Stack place(state, share.xcc, space, mqd);
  TRY(context_.memory.write(place.space, place.address + size - used,
                            std::as_bytes(std::span(stack))));
  xcc.stack_offset = size - used;
  xcc.wave_offset = size + static_cast<uint32_t>(share.left.bytes);
  xcc.compute = share.registers;
  xcc.persistent |= persistent::kDispActive | (stack.empty() ? 0 : persistent::kRelaunchWaves) |
                    (share.left.incomplete ? persistent::kRestoreActive : 0);
  std::ranges::copy(share.left.restart, xcc.compute.words.begin() + Registers::kRestartX);
  return {};
}

// One XCC runs a PM4 queue.
void Launcher::set_shares(const HqdState& state) {
  const uint32_t size = state.at(mqd::kStackSize), area = state.at(mqd::kSaveAreaSize);
  const bool aql = state.at(mqd::kAqlControl) != 0;
  shares_.clear();
  for (unsigned i = 0; i < state.xccs.size(); ++i) {
    const HqdState::Xcc& xcc = state.xccs[i];
    if (!aql && i != std::min<size_t>(state.target_xcc, state.xccs.size() - 1)) continue;
    Share& share = shares_.emplace_back();
    share.xcc = i;
    share.turn = xcc.logic_id;
    share.registers = xcc.compute;
    share.save_area = {.base = xcc.save_area + size,
                       .bytes = area - std::min(area, size),
                       .stack_words = size / 4};
  }
}

amdgpu_criu::Status Launcher::resume(const HqdState& state, Space space, uint64_t mqd,
                                     uint32_t packet_index) {
  gws_.unpack(state.gws);
  set_shares(state);
  packet_index_ = packet_index;
  for (Share& share : shares_) {
    const HqdState::Xcc& xcc = state.xccs[share.xcc];
    const bool has_stack = xcc.stack_offset < state.at(mqd::kStackSize);
    const bool relaunches = xcc.persistent & persistent::kRelaunchWaves;
    if (has_stack != relaunches)
      context_.report(amdgpu_criu::formatted(
          "saved waves of XCC {}: the control stack has {}, CP_HQD_PERSISTENT_STATE is {:#x}",
          share.xcc, has_stack ? "some" : "none", xcc.persistent));
    if (xcc.persistent & persistent::kDispActive)
      TRY(resume_share(share, state, space, mqd, relaunches));
  }
  return {};
}

// Waves whose relaunch nothing asks for are lost.
amdgpu_criu::Status Launcher::resume_share(Share& share, const HqdState& state, Space space,
                                           uint64_t mqd, bool relaunches) {
  const uint32_t size = state.at(mqd::kStackSize), area = state.at(mqd::kSaveAreaSize);
  const HqdState::Xcc& xcc = state.xccs[share.xcc];
  const uint32_t offset = relaunches ? xcc.stack_offset : size;
  const uint32_t end = relaunches ? xcc.wave_offset : size;
  if (offset > size || end < size || end > area) {
    return amdgpu_criu::Error::of(EINVAL, "a control stack from {:#x} to {:#x}, waves up to {:#x}",
                                  offset, size, end);
  }
  shader::Suspended suspended;
  suspended.restart = share.registers.three(ComputeRegisters::kRestartX);
  suspended.stack.resize((size - offset) / 4);
  const Stack place(state, share.xcc, space, mqd);
  TRY(context_.memory.read(place.space, place.address + offset,
                           std::as_writable_bytes(std::span(suspended.stack))));
  suspended.bytes = end - size;
  share.dispatch = TRY(
      shader::Dispatch::resume(context_.cores, memory_of(share), space, spec(share), suspended));
  return {};
}

}  // namespace gpu
