// SPDX-License-Identifier: GPL-2.0
// The process's signal page and its KFD events.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "workload/memory.h"

namespace e2e {

class EventPage;

class Event {
 public:
  Event(Event&& other) noexcept
      : kfd_(other.kfd_), mailbox_(other.mailbox_), id_(std::exchange(other.id_, std::nullopt)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  // 0, which is no event's, once moved from.
  uint32_t id() const { return id_.value_or(0); }
  // Where the GPU writes the id before it raises the interrupt.
  uint64_t mailbox() const { return mailbox_; }

 private:
  friend class EventPage;
  Event(const Kfd& kfd, uint64_t mailbox, uint32_t id) : kfd_(&kfd), mailbox_(mailbox), id_(id) {}
  const Kfd* kfd_;
  uint64_t mailbox_;
  std::optional<uint32_t> id_;
};

// One a process, mapped on every GPU. KFD keeps the BO until the process ends.
class EventPage {
 public:
  static base::Result<EventPage> create(const Kfd& kfd, const Gpu& owner,
                                        std::span<const Gpu* const> peers);
  base::Result<Event> create_event();

 private:
  EventPage(const Kfd& kfd, std::unique_ptr<Bo> page) : kfd_(&kfd), page_(std::move(page)) {}
  const Kfd* kfd_;
  std::unique_ptr<Bo> page_;
  bool given_to_kfd_ = false;
};

}  // namespace e2e
