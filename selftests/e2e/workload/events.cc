// SPDX-License-Identifier: GPL-2.0
#include "workload/events.h"

#include <cstdio>

namespace e2e {

using base::Result;

Event::~Event() {
  if (!id_) return;
  const base::Status status = kfd_->destroy_event(*id_);
  if (!status.ok()) fprintf(stderr, "gpu_chain: %s\n", status.error().message().c_str());
}

Result<EventPage> EventPage::create(const Kfd& kfd, const Gpu& owner,
                                    std::span<const Gpu* const> peers) {
  Bo page = TRY(Bo::create(kfd, owner, peers, {Domain::kGtt, Kfd::kSignalPageSize, true, true}));
  page.keep_until_exit();
  return EventPage(kfd, std::make_unique<Bo>(std::move(page)));
}

Result<Event> EventPage::create_event() {
  const uint32_t id = TRY(kfd_->create_event(given_to_kfd_ ? 0 : page_->handle()));
  given_to_kfd_ = true;
  return Event(*kfd_, page_->va() + uint64_t{id} * 8, id);
}

}  // namespace e2e
