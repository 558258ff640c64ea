// SPDX-License-Identifier: GPL-2.0
// DISPATCH_DIRECT and DISPATCH_INDIRECT, with the COMPUTE_* registers that SET_SH_REG has set.
#include <algorithm>

#include "engines/pm4.h"

namespace gpu {

amdgpu_criu::Result<Step> Pm4::run_dispatch(std::array<uint32_t, 3> end, uint32_t how,
                                            Stream& stream, Budget& budget) {
  using State = Launcher::State;
  if (!launcher_.has_waves()) {
    const bool empty = !end[0] || !end[1] || !end[2];
    if (empty || !(how & initiator::kShaderEnable)) return Step::kDone;
    auto& words = launcher_.registers().words;
    words[ComputeRegisters::kInitiator] = how;
    std::ranges::copy(end, words.begin() + ComputeRegisters::kDimX);
    if (auto started = launcher_.start(stream.space()); !started.ok()) {
      exception(QueueException::kDispatchRegisterInvalid);
      return std::move(started).error();
    }
  }
  switch (run_waves(budget)) {
    case State::kRunning:
      return Step::kMore;
    case State::kHalted:
      return Step::kWait;
    case State::kSuspended:
      return Step::kStarved;
    case State::kDone:
      return Step::kDone;
    case State::kFault:
      return amdgpu_criu::Error(EFAULT, launcher_.complaint());
    case State::kIllegal:
      break;
  }
  // The queue hangs, which the driver's time limit turns into an error for the submitter.
  exception(QueueException::kDispatchCodeInvalid);
  return amdgpu_criu::Error(ENOSYS, launcher_.complaint());
}

amdgpu_criu::Result<Step> Pm4::dispatch_direct(Words words, Stream& stream, Budget& budget) {
  return run_dispatch({words[0], words[1], words[2]}, words[3], stream, budget);
}

// In the form of compute rings: the address of the dimensions.
amdgpu_criu::Result<Step> Pm4::dispatch_indirect(Words words, Stream& stream, Budget& budget) {
  std::array<uint32_t, 3> end;
  TRY(context_.memory.read(stream.space(), join(words[0] & ~3u, words[1]),
                           std::as_writable_bytes(std::span(end))));
  return run_dispatch(end, words[2], stream, budget);
}

}  // namespace gpu
