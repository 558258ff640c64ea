// SPDX-License-Identifier: GPL-2.0
#include "engines/mes.h"

namespace gpu {

amdgpu_criu::Status MesQueue::start(const HqdState& state) {
  stream_.place().ring_next = state.at(mqd::kPqRptr);
  TRY(stream_.set_wptr(state.pair(mqd::kPqWptr)));
  state_ = State::kRunnable;
  return {};
}

void MesQueue::doorbell(uint64_t value, unsigned size) {
  if (state_ == State::kStopped) return;
  if (const auto status = stream_.set_wptr(widen(value, size, stream_.wptr())); !status.ok()) {
    stop(status.error());
    return;
  }
  if (state_ == State::kIdle) state_ = State::kRunnable;
}

amdgpu_criu::Result<Step> MesQueue::execute(Budget&) {
  const auto frame = TRY(stream_.peek(Mes::kFrameDwords));
  if (frame.size() < Mes::kFrameDwords) return Step::kStarved;
  const Step step = TRY(mes_.execute(frame, stream_.progress()));
  if (step == Step::kDone) stream_.advance(Mes::kFrameDwords);
  return step;
}

}  // namespace gpu
