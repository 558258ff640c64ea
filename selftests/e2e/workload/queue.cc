// SPDX-License-Identifier: GPL-2.0
#include "workload/queue.h"

#include <atomic>
#include <cstdio>

namespace e2e {

using amdgpu_criu::Result;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kEopSize = 4096;
// Offsets of write_dispatch_id and read_dispatch_id in amd_queue_t (amd_hsa_queue.h), from which
// AQL packet processors find the rest of that structure. Other queue types accept them, too.
constexpr uint64_t kWritePointer = 56;
constexpr uint64_t kReadPointer = 128;

}  // namespace

Result<volatile uint64_t*> Doorbells::at(const Kfd& kfd, const Gpu& gpu, uint64_t doorbell_offset) {
  const uint64_t place = doorbell_offset % Kfd::kDoorbellSlice;
  if (!page_)
    page_.emplace(TRY(Bo::create_special(kfd, gpu, Domain::kDoorbell, Kfd::kDoorbellSlice,
                                         doorbell_offset - place)));
  return static_cast<volatile uint64_t*>(page_->at<uint64_t>(place));
}

Result<Queue> Queue::create(const Kfd& kfd, const Gpu& gpu, Doorbells& doorbells,
                            const QueueSpec& spec) {
  Queue queue(kfd, TRY(Bo::create(kfd, gpu, {}, {spec.ring_domain, spec.ring_bytes, true, true})),
              TRY(Bo::create(kfd, gpu, {}, {Domain::kGtt, kPage, true, true})));
  QueueRequest request = {gpu.id(),
                          spec.type,
                          queue.ring_.va(),
                          spec.ring_bytes,
                          queue.pointers_.va() + kReadPointer,
                          queue.pointers_.va() + kWritePointer};
  if (spec.type != QueueType::kSdma) {
    queue.eop_.emplace(TRY(Bo::create(kfd, gpu, {}, {Domain::kVram, kEopSize})));
    queue.context_save_.emplace(
        TRY(Bo::create(kfd, gpu, {}, {Domain::kGtt, gpu.node().cwsr_area()})));
    request.eop = queue.eop_->va();
    request.eop_size = kEopSize;
    request.context_save = queue.context_save_->va();
    request.node = &gpu.node();
  }
  const QueueHandle handle = TRY(kfd.create_queue(request));
  queue.id_ = handle.queue_id;
  queue.doorbell_offset_ = handle.doorbell_offset;
  queue.doorbell_ = TRY(doorbells.at(kfd, gpu, handle.doorbell_offset));
  return queue;
}

Queue::Queue(Queue&& other) noexcept
    : kfd_(other.kfd_),
      ring_(std::move(other.ring_)),
      pointers_(std::move(other.pointers_)),
      eop_(std::move(other.eop_)),
      context_save_(std::move(other.context_save_)),
      id_(std::exchange(other.id_, std::nullopt)),
      doorbell_offset_(other.doorbell_offset_),
      doorbell_(other.doorbell_),
      write_pointer_(other.write_pointer_) {}

Queue::~Queue() {
  if (!id_) return;
  const amdgpu_criu::Status status = kfd_->destroy_queue(*id_);
  if (!status.ok()) fprintf(stderr, "gpu_chain: %s\n", status.error().message().c_str());
}

uint64_t Queue::read_pointer() const {
  return std::atomic_ref(*pointers_.at<uint64_t>(kReadPointer)).load(std::memory_order_acquire);
}

void Queue::ring_doorbell(uint64_t write_pointer, uint64_t doorbell_value) {
  write_pointer_ = write_pointer;
  std::atomic_ref(*pointers_.at<uint64_t>(kWritePointer))
      .store(write_pointer, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *doorbell_ = doorbell_value;
}

uint64_t Queue::bytes() const {
  return ring_.size() + pointers_.size() + (eop_ ? eop_->size() : 0) +
         (context_save_ ? context_save_->size() : 0);
}

}  // namespace e2e
