// SPDX-License-Identifier: GPL-2.0
#include "workload/copier.h"

#include <algorithm>
#include <cstring>

namespace e2e {

using base::Error;
using base::Result;
using base::Status;

namespace {
constexpr uint64_t kStagingSize = 4 << 20;
}

Result<Copier> Copier::create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                              EventPage& events, unsigned timeout_ms) {
  SdmaQueue queue = TRY(SdmaQueue::create(kfd, gpu, doorbells));
  Bo staging = TRY(Bo::create(kfd, gpu, {}, {Domain::kGtt, kStagingSize}));
  Event event = TRY(events.create_event());
  return Copier(kfd, std::move(queue), std::move(staging), std::move(event), timeout_ms);
}

Status Copier::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  SdmaStream stream;
  stream.copy(to, from, bytes).fence(event_.mailbox(), event_.id()).trap(event_.id());
  TRY(queue_.submit(std::move(stream)));
  const uint32_t id = event_.id();
  if (TRY(kfd_->wait_events({&id, 1}, timeout_ms_)) == WaitResult::kTimeout)
    return Error::of(ETIMEDOUT, "an SDMA copy of {} bytes did not end in {} s", bytes,
                     timeout_ms_ / 1000);
  return {};
}

Status Copier::fill(const Bo& bo, const Pattern& pattern) {
  for (uint64_t at = 0; at < bo.size(); at += kStagingSize) {
    const uint64_t part = std::min(bo.size() - at, kStagingSize);
    pattern.fill(staging_.bytes().first(part), at);
    TRY(copy(bo.va() + at, staging_.va(), part));
  }
  return {};
}

Result<std::optional<Damage>> Copier::check(const Bo& bo, const Pattern& pattern) {
  std::optional<Damage> damage;
  for (uint64_t at = 0; at < bo.size(); at += kStagingSize) {
    const std::span<std::byte> part =
        staging_.bytes().first(std::min(bo.size() - at, kStagingSize));
    // A copy that does nothing must not find what an earlier one left.
    memset(part.data(), 0xee, part.size());
    TRY(copy(staging_.va(), bo.va() + at, part.size()));
    const std::optional<Damage> found = pattern.check(part, at);
    if (found && damage) damage->add(*found);
    if (found && !damage) damage = found;
  }
  return damage;
}

}  // namespace e2e
