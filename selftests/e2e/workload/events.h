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
      : kfd_(other.kfd_),
        mailbox_(other.mailbox_),
        slot_(other.slot_),
        id_(std::exchange(other.id_, std::nullopt)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  // 0, the id of no event, after a move.
  uint32_t id() const { return id_.value_or(0); }
  // The address to which the GPU writes the id before it raises the interrupt.
  uint64_t mailbox() const { return mailbox_; }
  // Before the GPU raises it: an interrupt signals events whose slot is set. The GPU sets it in a
  // page that is a BO; in the kernel's own page the CPU has to.
  amdgpu_criu::Status arm() const;

 private:
  friend class EventPage;
  Event(const Kfd& kfd, uint64_t mailbox, uint64_t* slot, uint32_t id)
      : kfd_(&kfd), mailbox_(mailbox), slot_(slot), id_(id) {}
  const Kfd* kfd_;
  uint64_t mailbox_;
  uint64_t* slot_;  // in the kernel's own page, else null
  std::optional<uint32_t> id_;
};

// One for each process, mapped on every GPU. KFD keeps the BO until the process ends. With own
// pages the kernel allocates the page that it reads, which no GPU sees; GPUs write to the BO.
// Kernels from 7.3 on allocate none: the BO is the page.
class EventPage {
 public:
  static amdgpu_criu::Result<EventPage> create(const Kfd& kfd, const Gpu& owner,
                                               std::span<const Gpu* const> peers);
  amdgpu_criu::Result<Event> create_event();

 private:
  EventPage(const Kfd& kfd, std::unique_ptr<Bo> page)
      : kfd_(&kfd), page_(std::move(page)), is_bo_(!kfd.ways().own_pages) {}
  const Kfd* kfd_;
  amdgpu_criu::Status map_own(uint64_t offset);
  std::unique_ptr<Bo> page_;
  amdgpu_criu::Mapping own_;  // the kernel's
  bool is_bo_;                // what the kernel reads
  bool given_to_kfd_ = false;
};

}  // namespace e2e
