// SPDX-License-Identifier: GPL-2.0
#include "workload/copier.h"

#include <algorithm>
#include <cstring>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {
constexpr uint64_t kStagingSize = 4 << 20;

uint64_t end_of(const Bo& bo, const Part& part) {
  return part.offset + std::min(part.bytes, bo.size() - part.offset);
}
}  // namespace

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
  TRY(event_.arm());
  TRY(queue_.submit(std::move(stream)));
  const uint32_t id = event_.id();
  if (TRY(kfd_->wait_events({&id, 1}, timeout_ms_)) == WaitResult::kTimeout)
    return Error::of(ETIMEDOUT, "an SDMA copy of {} bytes is not complete after {} s", bytes,
                     timeout_ms_ / 1000);
  return {};
}

Status Copier::fill(const Bo& bo, const Pattern& pattern, Part part) {
  const uint64_t end = end_of(bo, part);
  for (uint64_t at = part.offset; at < end; at += kStagingSize) {
    const uint64_t size = std::min(end - at, kStagingSize);
    pattern.fill(staging_.bytes().first(size), at);
    TRY(copy(bo.va() + at, staging_.va(), size));
  }
  return {};
}

Result<std::optional<Damage>> Copier::check(const Bo& bo, const Pattern& pattern, Part part) {
  std::optional<Damage> damage;
  const uint64_t end = end_of(bo, part);
  for (uint64_t at = part.offset; at < end; at += kStagingSize) {
    const std::span<std::byte> bytes = staging_.bytes().first(std::min(end - at, kStagingSize));
    // Clears the result of an earlier copy, to detect one that does nothing.
    memset(bytes.data(), 0xee, bytes.size());
    TRY(copy(staging_.va(), bo.va() + at, bytes.size()));
    const std::optional<Damage> found = pattern.check(bytes, at);
    if (found && damage) damage->add(*found);
    if (found && !damage) damage = found;
  }
  return damage;
}

}  // namespace e2e
