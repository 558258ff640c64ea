// SPDX-License-Identifier: GPL-2.0
#include "mix/queues.h"

#include <algorithm>
#include <atomic>

#include "workload/control.h"

namespace e2e {

using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {
constexpr uint64_t kCellSize = 8;
constexpr uint32_t kWaiting = 4;  // submissions that a disabled queue may get
}  // namespace

Result<Queues> Queues::create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells, size_t most) {
  Bo cells = TRY(Bo::create(kfd, gpu, {}, {Domain::kGtt, kPageSize, true, true}));
  std::ranges::fill(cells.bytes(), std::byte{0});
  Queues queues(kfd, gpu, doorbells, most, std::move(cells));
  TRY(queues.add());
  return queues;
}

Status Queues::add() {
  queues_.push_back({TRY(SdmaQueue::create(*kfd_, *gpu_, *doorbells_)), next_cell_++});
  return {};
}

// Disabled by a share of 0 %, or by a ring at address 0.
Status Queues::update(Random& random, One& one) {
  one.percent = below(random, 3) == 0 ? 0 : 1 + static_cast<unsigned>(below(random, 100));
  one.has_ring = below(random, 3) != 0;
  return kfd_->update_queue({one.queue.queue().id(), one.has_ring ? one.queue.queue().ring_va() : 0,
                             static_cast<uint32_t>(one.queue.queue().ring().size()), one.percent,
                             static_cast<uint32_t>(below(random, 16))});
}

Status Queues::change(Random& random, bool may_destroy) {
  const uint64_t what = below(random, 4);
  if (queues_.empty() || (what == 0 && queues_.size() < most_)) return add();
  const auto one =
      std::next(queues_.begin(), static_cast<ptrdiff_t>(below(random, queues_.size())));
  if (what != 1 || queues_.size() == 1 || !may_destroy) return update(random, *one);
  queues_.erase(one);
  return {};
}

bool Queues::becomes(const One& one, uint32_t value, unsigned timeout_ms) const {
  const std::atomic_ref cell(*cells_.at<uint32_t>(one.cell * kCellSize));
  for (unsigned ms = 0; ms < timeout_ms && cell.load() != value; ++ms) pause_ms(1);
  return cell.load() == value;
}

void Queues::check(One& one, std::vector<std::string>& problems, unsigned timeout_ms) {
  constexpr unsigned kRestMs = 20;
  const bool runs = one.percent != 0 && one.has_ring;
  if (runs || one.submitted - one.expected < kWaiting) {
    SdmaStream stream;
    stream.fence(cells_.va() + one.cell * kCellSize, ++one.submitted);
    if (const Status status = one.queue.submit(std::move(stream)); !status.ok())
      problems.push_back(status.error().message());
  }
  if (runs) one.expected = one.submitted;
  if (!becomes(one, one.expected, runs ? timeout_ms : kRestMs))
    problems.push_back(
        amdgpu_criu::formatted("queue {} makes no progress", one.queue.queue().id()));
  if (!runs && becomes(one, one.submitted, kRestMs))
    problems.push_back(
        amdgpu_criu::formatted("queue {} runs, but is disabled", one.queue.queue().id()));
}

void Queues::check(std::vector<std::string>& problems, unsigned timeout_ms) {
  for (One& one : queues_) check(one, problems, timeout_ms);
}

}  // namespace e2e
