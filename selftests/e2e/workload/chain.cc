// SPDX-License-Identifier: GPL-2.0
#include "workload/chain.h"

#include <atomic>

#include "workload/chain_math.h"
#include "workload/data.h"

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

// BO "cells": words that queues and CPU exchange.
constexpr uint64_t kGate = 0;
constexpr uint64_t kSdmaFence = 64;
constexpr uint64_t kPm4Fence = 128;
constexpr uint64_t kLaneSignals = 1024;  // one AqlSignal a lane
constexpr uint64_t kDependencies = 4096;
constexpr uint64_t kDependencySlots = 16;  // more than the pending steps
constexpr uint64_t kCellsSize = 8192;

// Blocks X and Y: a pattern with the value in the middle.
constexpr uint64_t kBlockSize = 64 << 10;
constexpr uint64_t kValue = 36 << 10;
constexpr uint64_t kBlockSeed = 0xb10c;

constexpr uint64_t kHistorySlots = 1024;
constexpr int64_t kSignalStart = int64_t{1} << 40;

uint64_t dependency_of(uint64_t step) {
  return kDependencies + step % kDependencySlots * sizeof(AqlSignal);
}

template <typename T>
T load(const Bo& bo, uint64_t offset) {
  return std::atomic_ref(*bo.at<T>(offset)).load(std::memory_order_acquire);
}

template <typename T>
void store(const Bo& bo, uint64_t offset, T value) {
  std::atomic_ref(*bo.at<T>(offset)).store(value, std::memory_order_release);
}

void check_block(const Bo& block, const char* name, uint64_t value,
                 std::vector<std::string>& problems) {
  const Pattern pattern(kBlockSeed);
  const auto bytes = block.bytes();
  if (const auto damage = pattern.check(bytes.first(kValue)))
    problems.push_back(describe(amdgpu_criu::formatted("block {}", name), kBlockSize, *damage));
  if (const auto damage = pattern.check(bytes.subspan(kValue + 8), kValue + 8))
    problems.push_back(describe(amdgpu_criu::formatted("block {}", name), kBlockSize, *damage));
  const auto found = load<uint64_t>(block, kValue);
  if (found != value)
    problems.push_back(
        amdgpu_criu::formatted("block {}: value {:#018x}, expected {:#018x}", name, found, value));
}

}  // namespace

Result<Lane> Lane::create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells, EventPage& events) {
  return Lane{TRY(SdmaQueue::create(kfd, gpu, doorbells)),
              TRY(Pm4Queue::create(kfd, gpu, doorbells)),
              TRY(AqlQueue::create(kfd, gpu, doorbells)),
              TRY(events.create_event()),
              TRY(events.create_event()),
              TRY(events.create_event())};
}

Result<Chain> Chain::create(const Kfd& kfd, std::span<const Gpu* const> gpus,
                            std::span<Doorbells* const> doorbells, EventPage& events,
                            unsigned timeout_ms) {
  const BoSpec block = {shared_vram(gpus), kBlockSize, true, true};
  Memory memory = {
      TRY(Bo::create(kfd, *gpus[0], gpus, {Domain::kGtt, kCellsSize, true, true})),
      TRY(Bo::create(kfd, *gpus[0], gpus, block)),
      TRY(Bo::create(kfd, *gpus[0], gpus, block)),
      TRY(Bo::create(kfd, *gpus[0], gpus, {Domain::kGtt, kHistorySlots * 8, true, true})),
  };
  std::vector<Lane> lanes;
  for (size_t i = 0; i < gpus.size(); ++i)
    lanes.push_back(TRY(Lane::create(kfd, *gpus[i], *doorbells[i], events)));
  Chain chain(kfd, std::move(memory), std::move(lanes), timeout_ms);
  chain.prepare();
  for (uint64_t step = 1; step <= kAhead; ++step) TRY(chain.submit(step));
  return chain;
}

void Chain::prepare() {
  for (const Bo* bo : {&memory_.cells, &memory_.history})
    std::ranges::fill(bo->bytes(), std::byte{0});
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Event& event = lanes_[i].aql_event;
    *memory_.cells.at<AqlSignal>(kLaneSignals + i * sizeof(AqlSignal)) = {
        kUserSignal, kSignalStart, event.mailbox(), event.id(), {}};
  }
  for (uint64_t i = 0; i < kDependencySlots; ++i)
    memory_.cells.at<AqlSignal>(kDependencies)[i] = {kUserSignal, 1, 0, 0, {}};
  Pattern(kBlockSeed).fill(memory_.x.bytes());
  Pattern(kBlockSeed).fill(memory_.y.bytes());
  store(memory_.x, kValue, value_at(0));
}

int64_t Chain::signal_after(uint64_t step) const {
  return kSignalStart - static_cast<int64_t>(count_in_lane(step));
}

Status Chain::submit(uint64_t step) {
  Lane& lane = lanes_[lane_of(step)];
  const uint64_t cells = memory_.cells.va();
  const uint64_t x = memory_.x.va(), y = memory_.y.va();
  const uint64_t signals = cells + kLaneSignals;
  const auto step32 = static_cast<uint32_t>(step);
  store<int64_t>(memory_.cells, dependency_of(step) + offsetof(AqlSignal, value), 1);

  SdmaStream sdma;
  sdma.poll(cells + kGate, Compare::kGreaterOrEqual, step32);
  if (step > 1)
    sdma.poll(signals + lane_of(step - 1) * sizeof(AqlSignal) + offsetof(AqlSignal, value),
              Compare::kEqual, static_cast<uint32_t>(signal_after(step - 1)));
  sdma.copy(y, x, kBlockSize)
      .add64(y + kValue, sdma_addend(step))
      .fence(cells + kSdmaFence, step32)
      .fence(lane.sdma_event.mailbox(), lane.sdma_event.id())
      .trap(lane.sdma_event.id());
  TRY(lane.sdma.submit(std::move(sdma)));

  Pm4Stream pm4;
  pm4.wait(cells + kSdmaFence, Compare::kEqual, step32)
      .copy64(x + kValue, y + kValue)
      .add64(x + kValue, pm4_addend(step))
      .copy64(memory_.history.va() + step % kHistorySlots * 8, x + kValue)
      .release(cells + kPm4Fence, step32)
      .release_and_interrupt(lane.pm4_event.mailbox(), lane.pm4_event.id(), lane.pm4_event.id())
      .write64(cells + dependency_of(step) + offsetof(AqlSignal, value), 0);
  TRY(lane.pm4.submit(std::move(pm4)));

  return lane.aql.submit(
      barrier_and(cells + dependency_of(step), signals + lane_of(step) * sizeof(AqlSignal)));
}

Status Chain::step() {
  const uint64_t step = done_ + 1;
  const Lane& lane = lanes_[lane_of(step)];
  for (const Event* event : {&lane.sdma_event, &lane.pm4_event, &lane.aql_event}) TRY(event->arm());
  store(memory_.cells, kGate, static_cast<uint32_t>(step));
  const uint32_t events[] = {lane.sdma_event.id(), lane.pm4_event.id(), lane.aql_event.id()};
  if (TRY(kfd_->wait_events(events, timeout_ms_)) == WaitResult::kTimeout)
    return Error::of(ETIMEDOUT, "step {} has no events after {} s: {}", step, timeout_ms_ / 1000,
                     progress(step));
  TRY(check_step(step));
  done_ = step;
  return submit(step + kAhead);
}

Status Chain::check_step(uint64_t step) const {
  const auto x = load<uint64_t>(memory_.x, kValue);
  const auto y = load<uint64_t>(memory_.y, kValue);
  const auto history = load<uint64_t>(memory_.history, step % kHistorySlots * 8);
  if (x == value_at(step) && y == half_value_at(step) && history == value_at(step)) return {};
  return Error::of(EBADMSG,
                   "step {} has wrong values: X {:#x} Y {:#x} history {:#x}, expected {:#x} {:#x} "
                   "{:#x}: {}",
                   step, x, y, history, value_at(step), half_value_at(step), value_at(step),
                   progress(step));
}

std::string Chain::progress(uint64_t step) const {
  const Lane& lane = lanes_[lane_of(step)];
  const auto signal = load<int64_t>(
      memory_.cells, kLaneSignals + lane_of(step) * sizeof(AqlSignal) + offsetof(AqlSignal, value));
  return amdgpu_criu::formatted(
      "SDMA fence {}, PM4 fence {}, AQL signal {} (expected {}); read/write pointers: SDMA {}/{} "
      "PM4 {}/{} AQL {}/{}",
      load<uint32_t>(memory_.cells, kSdmaFence), load<uint32_t>(memory_.cells, kPm4Fence), signal,
      signal_after(step), lane.sdma.queue().read_pointer(), lane.sdma.queue().write_pointer(),
      lane.pm4.queue().read_pointer(), lane.pm4.queue().write_pointer(),
      lane.aql.queue().read_pointer(), lane.aql.queue().write_pointer());
}

void Chain::check(std::vector<std::string>& problems) const {
  check_block(memory_.x, "X", value_at(done_), problems);
  if (done_) check_block(memory_.y, "Y", half_value_at(done_), problems);
  for (uint64_t slot = 0; slot < kHistorySlots; ++slot) {
    const uint64_t step = latest_step_in_slot(slot, kHistorySlots, done_);
    const uint64_t expected = step ? value_at(step) : 0;
    const auto found = load<uint64_t>(memory_.history, slot * 8);
    if (found == expected) continue;
    problems.push_back(
        amdgpu_criu::formatted("history of step {}: {:#x}, expected {:#x}", step, found, expected));
    return;
  }
}

unsigned Chain::bo_count() const {
  unsigned count = 4;
  for (const Lane& lane : lanes_)
    count +=
        lane.sdma.queue().bo_count() + lane.pm4.queue().bo_count() + lane.aql.queue().bo_count();
  return count;
}

uint64_t Chain::bytes() const {
  uint64_t sum = kCellsSize + 2 * kBlockSize + kHistorySlots * 8;
  for (const Lane& lane : lanes_)
    sum += lane.sdma.queue().bytes() + lane.pm4.queue().bytes() + lane.aql.queue().bytes();
  return sum;
}

}  // namespace e2e
