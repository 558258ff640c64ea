// SPDX-License-Identifier: GPL-2.0
#include "engines/launcher.h"

#include <algorithm>

#include "engines/hqd.h"
#include "shader/cores.h"

namespace gpu {
namespace {

constexpr unsigned kTurnInstructions = 1 << 15;
// The control stack begins one page behind the MQD (kfd_mqd_manager_v9.c, allocate_mqd).
constexpr uint64_t kStackAfterMqd = 4096;

// Which units of an array COMPUTE_STATIC_THREAD_MGMT enables; two arrays share a register.
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
shader::DispatchSpec Launcher::spec() {
  using Registers = ComputeRegisters;
  const auto& words = registers_.words;
  shader::DispatchSpec spec = {.rsrc1 = words[Registers::kRsrc1],
                               .rsrc2 = words[Registers::kRsrc2],
                               .rsrc3 = words[Registers::kRsrc3],
                               .apertures = process_.apertures,
                               .trap = process_.trap,
                               .save_area = save_area_,
                               .gws = &gws_,
                               .packet_index = packet_index_,
                               .doorbell_id = doorbell_id_};
  spec.code = join(words[Registers::kPgmLo], words[Registers::kPgmLo + 1]) << 8;
  const uint32_t how = words[Registers::kInitiator];
  const auto end = registers_.three(Registers::kDimX);
  const auto threads = registers_.three(Registers::kNumThreadX);
  if (!(how & initiator::kForceStartAt000)) spec.first_group = registers_.three(Registers::kStartX);
  for (unsigned axis = 0; axis < 3; ++axis) {
    spec.group_size[axis] = bits(threads[axis], 15, 0);
    spec.grid[axis] =
        how & initiator::kUseThreadDimensions ? end[axis] : end[axis] * spec.group_size[axis];
  }
  std::copy_n(words.begin() + Registers::kUserData0, spec.user_data.size(), spec.user_data.begin());
  spec.lds_bytes = bits(spec.rsrc2, 23, 15) * shader::kLdsGranule;
  const uint32_t tmpring = words[Registers::kTmpringSize];
  spec.scratch_waves = bits(tmpring, 11, 0);
  spec.scratch_base = join(words[Registers::kScratchBase], words[Registers::kScratchBase + 1]) << 8;
  spec.scratch_wave_bytes = uint64_t{bits(tmpring, 24, 12)} << 10;
  set_units(spec);
  return spec;
}

// One XCC runs the work-groups of all.
void Launcher::set_units(shader::DispatchSpec& spec) const {
  const Asic& asic = context_.asic;
  spec.unit_scale = asic.xccs > 1 ? 2 : 1;
  spec.max_waves = asic.shader_engines * asic.arrays_per_engine * asic.units_per_array *
                   shader::Units::kWaves * spec.unit_scale;
  spec.units.clear();
  for (unsigned engine = 0; engine < asic.shader_engines; ++engine) {
    for (unsigned array = 0; array < asic.arrays_per_engine; ++array) {
      const uint32_t enabled = enabled_units(registers_, engine, array);
      for (unsigned unit = 0; unit < asic.units_per_array; ++unit) {
        if (enabled >> unit & 1) spec.units.push_back({engine, array, unit});
      }
    }
  }
}

amdgpu_criu::Status Launcher::start(Space space, uint32_t packet_index) {
  if (!context_.asic.isa)
    return amdgpu_criu::Error::of(EINVAL, "compute kernels of {} are not modelled",
                                  context_.asic.target);
  packet_index_ = packet_index;
  dispatch_ = TRY(shader::Dispatch::create(context_.cores, context_.memory, space, spec()));
  return {};
}

Launcher::State Launcher::run(Budget& budget) {
  const State state = dispatch_->run(kTurnInstructions);
  interrupts_ = dispatch_->take_interrupts();
  for (const std::string& text : context_.cores.take_complaints()) context_.report(text);
  budget.use_bytes(budget.bytes);
  if (state == State::kRunning || state == State::kHalted) return state;
  const auto ended = std::move(dispatch_);
  complaint_ = ended->complaint();
  if (state == State::kSuspended) suspended_ = ended->suspended();
  return state;
}

void Launcher::preempt() {
  if (dispatch_ && (dispatch_->can_suspend() || !dispatch_->waves_in_flight()))
    dispatch_->suspend();
}

amdgpu_criu::Status Launcher::save(HqdState& state, uint64_t mqd) {
  using Registers = ComputeRegisters;
  const uint32_t size = state.at(mqd::kStackSize);
  uint32_t used = 0;
  state.at(mqd::kWaveOffset) = size;
  state.compute = registers_;
  state.gws = gws_.pack();
  if (suspended_) {
    const auto& stack = suspended_->stack;
    used = static_cast<uint32_t>(stack.size() * 4);
    TRY(context_.memory.write(kKernelSpace, mqd + kStackAfterMqd + size - used,
                              std::as_bytes(std::span(stack))));
    state.at(mqd::kWaveOffset) = size + static_cast<uint32_t>(suspended_->bytes);
    state.compute.words[Registers::kInitiator] |= initiator::kRestore;
    std::ranges::copy(suspended_->restart, state.compute.words.begin() + Registers::kRestartX);
    suspended_.reset();
  }
  state.at(mqd::kStackOffset) = size - used;
  return {};
}

amdgpu_criu::Status Launcher::resume(const HqdState& state, Space space, uint64_t mqd,
                                     uint32_t packet_index) {
  using Registers = ComputeRegisters;
  const uint32_t size = state.at(mqd::kStackSize), area = state.at(mqd::kSaveAreaSize);
  gws_.unpack(state.gws);
  save_area_ = {.base = state.pair(mqd::kSaveAreaBase) + size,
                .bytes = area - std::min(area, size),
                .stack_words = size / 4};
  uint32_t& how = registers_.words[Registers::kInitiator];
  if (!(how & initiator::kRestore)) return {};
  how &= ~initiator::kRestore;
  packet_index_ = packet_index;
  shader::Suspended suspended;
  suspended.restart = registers_.three(Registers::kRestartX);
  const uint32_t offset = state.at(mqd::kStackOffset), end = state.at(mqd::kWaveOffset);
  if (offset > size || end < size || end > area) {
    return amdgpu_criu::Error::of(EINVAL, "a control stack from {:#x} to {:#x}, waves up to {:#x}",
                                  offset, size, end);
  }
  suspended.stack.resize((size - offset) / 4);
  TRY(context_.memory.read(kKernelSpace, mqd + kStackAfterMqd + offset,
                           std::as_writable_bytes(std::span(suspended.stack))));
  suspended.bytes = end - size;
  dispatch_ =
      TRY(shader::Dispatch::resume(context_.cores, context_.memory, space, spec(), suspended));
  return {};
}

}  // namespace gpu
