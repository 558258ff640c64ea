// SPDX-License-Identifier: GPL-2.0
// DISPATCH_DIRECT and DISPATCH_INDIRECT, with what SET_SH_REG has put into COMPUTE_* before.
#include "engines/pm4.h"

namespace gpu {
namespace {

constexpr unsigned kTurnInstructions = 1 << 15;
constexpr uint32_t kLdsGranule = 512;

// COMPUTE_DISPATCH_INITIATOR, as gc_9_4_2_sh_mask.h names its bits.
constexpr uint32_t kShaderEnable = 1 << 0;
constexpr uint32_t kForceStartAt000 = 1 << 2;
constexpr uint32_t kUseThreadDimensions = 1 << 5;

}  // namespace

// The dimensions are where the grid ends, not how long it is; it starts at COMPUTE_START.
shader::DispatchSpec Pm4::dispatch_spec(std::array<uint32_t, 3> end, uint32_t initiator) const {
  using Registers = ComputeRegisters;
  const Registers& compute = compute_;
  shader::DispatchSpec spec = {.rsrc1 = compute.words[Registers::kRsrc1],
                               .rsrc2 = compute.words[Registers::kRsrc2],
                               .rsrc3 = compute.words[Registers::kRsrc3],
                               .apertures = setup_.apertures};
  spec.code = join(compute.words[Registers::kPgmLo], compute.words[Registers::kPgmLo + 1]) << 8;
  const auto threads = compute.three(Registers::kNumThreadX);
  if (!(initiator & kForceStartAt000)) spec.first_group = compute.three(Registers::kStartX);
  for (unsigned axis = 0; axis < 3; ++axis) {
    spec.group_size[axis] = bits(threads[axis], 15, 0);
    spec.grid[axis] =
        initiator & kUseThreadDimensions ? end[axis] : end[axis] * spec.group_size[axis];
  }
  std::copy_n(compute.words.begin() + Registers::kUserData0, spec.user_data.size(),
              spec.user_data.begin());
  spec.lds_bytes = bits(spec.rsrc2, 23, 15) * kLdsGranule;
  const uint32_t tmpring = compute.words[Registers::kTmpringSize];
  spec.scratch_waves = bits(tmpring, 11, 0);
  spec.scratch_wave_bytes = uint64_t{bits(tmpring, 24, 12)} << 10;
  return spec;
}

amdgpu_criu::Result<Step> Pm4::run_dispatch(std::array<uint32_t, 3> end, uint32_t initiator,
                                            Stream& stream, Budget& budget) {
  using State = shader::Dispatch::State;
  if (!dispatch_) {
    const bool empty = !end[0] || !end[1] || !end[2];
    if (empty || !(initiator & kShaderEnable)) return Step::kDone;
    auto created = shader::Dispatch::create(context_.cores, context_.memory, stream.space(),
                                            dispatch_spec(end, initiator));
    if (!created.ok()) {
      exception(QueueException::kDispatchRegisterInvalid);
      return std::move(created).error();
    }
    dispatch_ = std::move(*created);
  }
  const State state = dispatch_->run(kTurnInstructions);
  budget.use_bytes(budget.bytes);
  if (state == State::kRunning) return Step::kMore;
  const auto ended = std::move(dispatch_);
  if (state == State::kDone) return Step::kDone;
  if (state == State::kFault) return amdgpu_criu::Error(EFAULT, ended->complaint());
  // The queue hangs, which the driver's time limit turns into an error for whoever submitted it.
  exception(QueueException::kDispatchCodeInvalid);
  return amdgpu_criu::Error(ENOSYS, ended->complaint());
}

amdgpu_criu::Result<Step> Pm4::dispatch_direct(Words words, Stream& stream, Budget& budget) {
  return run_dispatch({words[0], words[1], words[2]}, words[3], stream, budget);
}

// As compute rings have it: the address of the dimensions.
amdgpu_criu::Result<Step> Pm4::dispatch_indirect(Words words, Stream& stream, Budget& budget) {
  std::array<uint32_t, 3> end;
  TRY(context_.memory.read(stream.space(), join(words[0] & ~3u, words[1]),
                           std::as_writable_bytes(std::span(end))));
  return run_dispatch(end, words[2], stream, budget);
}

}  // namespace gpu
