// SPDX-License-Identifier: GPL-2.0
#include "render/userqs.h"

#include <atomic>
#include <utility>

namespace e2e {

using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

// As in the amdgpu_drm.h of 7.3.
constexpr unsigned long kUserq = 0x16, kUserqSignal = 0x17;
constexpr uint32_t kCreate = 1, kFree = 2;

struct UserqArgs {
  uint32_t op;  // CREATE: replaced by the id
  uint32_t queue_id;
  uint32_t ip_type;
  uint32_t doorbell_handle;
  uint32_t doorbell_offset;
  uint32_t flags;
  uint64_t queue_va;
  uint64_t queue_size;
  uint64_t rptr_va;
  uint64_t wptr_va;
  uint64_t mqd;
  uint64_t mqd_size;
};

struct SignalArgs {
  uint32_t queue_id;
  uint32_t pad;
  uint64_t syncobjs;
  uint64_t num_syncobjs;
  uint64_t read_bos;
  uint64_t write_bos;
  uint32_t num_read_bos;
  uint32_t num_write_bos;
};

// The ring, the read pointer, and an EOP buffer or a context save area.
constexpr uint64_t kRing = 0x4000, kRptr = kRing, kArea = kRing + kGpuPage;

}  // namespace

Result<UserQueue> UserQueue::create(const RenderDevice& device, uint32_t ip,
                                    const RenderBo& doorbells, uint32_t doorbell,
                                    RenderCopier& copier) {
  RenderBo memory =
      TRY(RenderBo::create(device, {"user queue", AMDGPU_GEM_DOMAIN_GTT, 0, kArea + kGpuPage}));
  RenderBo wptr = TRY(RenderBo::create(
      device, {"write pointer of a user queue", AMDGPU_GEM_DOMAIN_GTT, 0, kGpuPage}));
  for (RenderBo* bo : {&memory, &wptr}) {
    TRY(bo->map_for_cpu());
    TRY(bo->map_for_gpu());
  }
  const uint32_t handles[] = {wptr.handle()};
  TRY(copier.read(wptr.va(), wptr.size(), handles));
  UserQueue queue(device, std::move(memory), std::move(wptr));
  queue.doorbell_ = doorbells.at<uint64_t>(doorbell * sizeof(uint64_t));
  queue.in_bytes_ = ip == AMDGPU_HW_IP_DMA;
  const uint64_t area = queue.memory_.va() + kArea;
  UserqArgs args = {.op = kCreate,
                    .queue_id = 0,
                    .ip_type = ip,
                    .doorbell_handle = doorbells.handle(),
                    .doorbell_offset = doorbell,
                    .flags = 0,
                    .queue_va = queue.memory_.va(),
                    .queue_size = kRing,
                    .rptr_va = queue.memory_.va() + kRptr,
                    .wptr_va = queue.wptr_.va(),
                    .mqd = reinterpret_cast<uintptr_t>(&area),
                    .mqd_size = sizeof(area)};
  TRY(device.command(kUserq, &args, sizeof(args), "cannot create a user queue"));
  queue.id_ = args.op;
  return queue;
}

UserQueue::UserQueue(UserQueue&& other) noexcept
    : device_(other.device_),
      memory_(std::move(other.memory_)),
      wptr_(std::move(other.wptr_)),
      doorbell_(other.doorbell_),
      in_bytes_(other.in_bytes_),
      id_(std::exchange(other.id_, 0)),
      next_(other.next_) {}

UserQueue::~UserQueue() {
  if (id_ == 0) return;
  UserqArgs args = {};
  args.op = kFree;
  args.queue_id = id_;
  (void)device_->command(kUserq, &args, sizeof(args), "cannot free a user queue");
}

void UserQueue::put(std::span<const uint32_t> packets) {
  for (const uint32_t word : packets) *memory_.at<uint32_t>(next_++ * sizeof(word) % kRing) = word;
}

uint64_t UserQueue::position() const { return in_bytes_ ? next_ * sizeof(uint32_t) : next_; }

void UserQueue::ring() {
  std::atomic_ref(*wptr_.at<uint64_t>(0)).store(position());
  std::atomic_ref(*doorbell_).store(position());
}

Status UserQueue::signal(const SyncObject& syncobj) {
  constexpr uint32_t kSignalFence[] = {0xc000d000, 0};
  put(kSignalFence);
  std::atomic_ref(*wptr_.at<uint64_t>(0)).store(position());
  const uint32_t handle = syncobj.handle();
  SignalArgs args = {};
  args.queue_id = id_;
  args.syncobjs = reinterpret_cast<uintptr_t>(&handle);
  args.num_syncobjs = 1;
  TRY(device_->command(kUserqSignal, &args, sizeof(args), "cannot signal a syncobj"));
  ring();
  return {};
}

}  // namespace e2e
