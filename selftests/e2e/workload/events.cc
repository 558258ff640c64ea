// SPDX-License-Identifier: GPL-2.0
#include "workload/events.h"

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

Event::~Event() {
  if (!id_) return;
  const amdgpu_criu::Status status = kfd_->destroy_event(*id_);
  if (!status.ok()) fprintf(stderr, "gpu_chain: %s\n", status.error().message().c_str());
}

Result<EventPage> EventPage::create(const Kfd& kfd, const Gpu& owner,
                                    std::span<const Gpu* const> peers) {
  Bo page = TRY(Bo::create(kfd, owner, peers, {Domain::kGtt, Kfd::kSignalPageSize, true, true}));
  if (!kfd.ways().own_pages) page.keep_until_exit();
  return EventPage(kfd, std::make_unique<Bo>(std::move(page)));
}

Status Event::arm() const {
  constexpr uint64_t kIdle = ~0ull;
  if (!slot_) return {};
  const std::atomic_ref slot(*slot_);
  if (const uint64_t found = slot.load(std::memory_order_acquire); found != kIdle)
    return Error::of(EBADMSG, "the slot of event {} holds {:#x}, which the kernel did not write",
                     id(), found);
  slot.store(id(), std::memory_order_release);
  return {};
}

Status EventPage::map_own(uint64_t offset) {
  own_ = TRY(amdgpu_criu::Mapping::map(Kfd::kSignalPageSize, PROT_READ | PROT_WRITE, MAP_SHARED,
                                       kfd_->fd(), static_cast<off_t>(offset)));
  return kfd_->ways().split ? split_mapping(own_.bytes()) : Status();
}

Result<Event> EventPage::create_event() {
  const auto made = kfd_->create_event(!is_bo_ || given_to_kfd_ ? 0 : page_->handle());
  if (!made.ok() && !is_bo_ && !given_to_kfd_ && made.error().code() == ENOMEM) {
    page_->keep_until_exit();
    is_bo_ = true;
    return create_event();
  }
  if (!made.ok()) return made.error();
  given_to_kfd_ = true;
  if (!is_bo_ && !own_.data()) TRY(map_own(made->page_offset));
  const uint64_t place = uint64_t{made->event_id} * 8;
  return Event(*kfd_, page_->va() + place,
               is_bo_ ? nullptr : reinterpret_cast<uint64_t*>(own_.data() + place), made->event_id);
}

}  // namespace e2e
