// SPDX-License-Identifier: GPL-2.0
#include "engines/queue.h"

namespace gpu {

void Queue::stop(const amdgpu_criu::Error& error) {
  state_ = State::kStopped;
  // A fault of a user queue concerns its process only, and has been reported to the driver.
  if (error.code() == EFAULT && spec_.vmid) return;
  uint32_t header = 0;
  if (error.code() != EFAULT) {
    const auto word = context_.memory.load<uint32_t>(stream_.space(), packet_address());
    if (word.ok()) header = *word;
  }
  context_.report(amdgpu_criu::formatted(
      "{} (vmid {}, pasid {:#x}) stops at packet {:#010x} at {:#x}: {}", spec_.name, spec_.vmid,
      spec_.pasid, header, packet_address(), error.message()));
}

void Queue::repeat_or_stop(const amdgpu_criu::Error& error) {
  if (error.code() != EAGAIN) return stop(error);
  state_ = State::kWaiting;
}

uint64_t Queue::widen(uint64_t value, unsigned size, uint64_t current) const {
  if (size == 8) return value;
  uint64_t wide = (current & ~uint64_t{0xffffffff}) | (value & 0xffffffff);
  if (wide < current) wide += uint64_t{1} << 32;
  return wide;
}

bool PacketQueue::run(Budget& budget) {
  bool worked = false;
  while (!retired()) {
    if (!stream_.settle()) {
      state_ = State::kIdle;
      break;
    }
    if (budget.spent()) {
      state_ = State::kRunnable;
      break;
    }
    --budget.packets;
    const uint64_t before = stream_.progress();
    const auto step = execute(budget);
    if (!step.ok()) {
      repeat_or_stop(step.error());
      break;
    }
    if (*step == Step::kDone) worked = true;
    if (*step == Step::kMore) worked = worked || stream_.progress() != before;
    if (*step == Step::kWait || *step == Step::kStarved) {
      state_ = *step == Step::kWait ? State::kWaiting : State::kIdle;
      break;
    }
  }
  if (worked && !retired()) report_rptr();
  return worked;
}

}  // namespace gpu
