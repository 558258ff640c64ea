// SPDX-License-Identifier: GPL-2.0
// The command processor's scheduler: which queues are mapped, to which VMID, from which MQD.
// Worker thread only.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engines/compute_queue.h"
#include "engines/hqd.h"
#include "engines/queue_table.h"
#include "regs/partitions.h"

namespace gpu {

class CommandProcessor : public SchedulerPackets {
 public:
  CommandProcessor(Context& context, QueueTable& table, HqdBank& bank)
      : context_(context), table_(table), bank_(bank) {}

  // A descriptor was activated by its registers (the KIQ), or is to be removed.
  void activate(HqdSlot slot);
  void dequeue(HqdSlot slot);
  // Pipe resets of CP_MEC_CNTL remove the queues of a pipe without saving them.
  void reset_pipe(unsigned me, unsigned pipe);
  void reset();

  // Preemption never completes, as with a hung wave. Any thread.
  void hang_preemption(bool hang) { hang_preemption_ = hang; }

  amdgpu_criu::Result<Step> manage(uint8_t opcode, std::span<const uint32_t> body,
                                   Queue::Owner issuer) override;

 private:
  using Words = std::span<const uint32_t>;
  // A queue of a MAP_QUEUES packet.
  struct Target {
    Queue::Owner issuer;
    uint32_t control;
    uint32_t doorbell;
    uint64_t mqd;
    uint64_t wptr_poll;
  };

  amdgpu_criu::Result<Step> set_resources(Words body, Queue::Owner issuer);
  amdgpu_criu::Result<Step> map_process(Words body, Queue::Owner issuer);
  amdgpu_criu::Result<Step> map_queues(Words body, Queue::Owner issuer);
  amdgpu_criu::Result<Step> unmap_queues(Words body, Queue::Owner issuer);
  amdgpu_criu::Result<Step> query_status(Words body, Queue::Owner issuer);

  amdgpu_criu::Status map_compute(const Target& target, Queue::Spec spec);
  amdgpu_criu::Status map_sdma(const Target& target, Queue::Spec spec, unsigned engine);
  void map_one(const Target& target);
  bool preempted(std::span<Queue* const> queues);
  void unmap(Queue& queue, bool save);
  // The XCCs that this one works with; the first of them runs the HIQ and the user queues.
  Partition partition();
  std::optional<HqdSlot> free_slot();
  std::optional<unsigned> vmid_for(uint32_t pasid);
  void release_vmids();

  Context& context_;
  QueueTable& table_;
  HqdBank& bank_;
  std::atomic<bool> hang_preemption_ = false;

  uint32_t vmid_mask_ = 0;
  uint64_t queue_mask_ = 0;
  std::map<uint32_t, unsigned> vmids_;  // by pasid, of the processes in the run list
  unsigned last_vmid_ = 0;              // that was given to a process
  Launcher::Process current_process_;
  uint32_t current_pasid_ = 0;  // of the run list's last MAP_PROCESS
  unsigned current_vmid_ = 0;   // 0: no VMID was free
};

}  // namespace gpu
