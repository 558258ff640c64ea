// SPDX-License-Identifier: GPL-2.0
// The command processor's scheduler: maps queues from MQDs, and assigns VMIDs. In the
// thread of the command processor.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engines/compute_queue.h"
#include "engines/mes.h"
#include "engines/queue_mapper.h"

namespace gpu {

class CommandProcessor : public SchedulerPackets {
 public:
  // mes: null on chips without it.
  CommandProcessor(Context& context, QueueMapper& mapper, Mes* mes)
      : context_(context),
        mapper_(mapper),
        table_(mapper.table()),
        bank_(mapper.bank()),
        mes_(mes) {}

  // A descriptor was activated by its registers (the KIQ), or must be removed.
  void activate(HqdSlot slot);
  void dequeue(HqdSlot slot);
  // Pipe resets of CP_MEC_CNTL remove the queues of a pipe without saving them.
  void reset_pipe(unsigned me, unsigned pipe);
  void reset();
  // Once a round. Queues of the run list that do not fit take turns with those that are mapped.
  // True while some wait.
  bool take_turns();

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

  // As MAP_PROCESS describes it.
  struct Process {
    uint32_t pasid = 0;
    uint64_t page_table = 0;
    bool retries = false;  // XNACK is on
    Launcher::Process waves;
  };
  struct Listed {
    Process process;
    Target target;
  };

  static bool is_static(uint32_t control);
  bool bind_process(const Process& process);
  amdgpu_criu::Status map_compute(const Target& target, const Process& process, Queue::Spec spec);
  amdgpu_criu::Status map_sdma(Queue::Spec spec, unsigned engine);
  void map_one(const Target& target);
  static unsigned gws_of(const Listed& listed);
  bool fits(const Listed& listed);
  bool map_listed(const Listed& listed);
  void map(const Target& target, const Process& process, Queue::Spec spec);
  void forget_listed(uint32_t doorbell);
  bool report_hung(const Queue& queue);

  Context& context_;
  QueueMapper& mapper_;
  QueueTable& table_;
  HqdBank& bank_;
  Mes* const mes_;
  std::atomic<bool> hang_preemption_ = false;

  uint64_t hiq_mqd_ = 0;
  Process current_process_;            // of the run list's last MAP_PROCESS
  std::map<uint32_t, Listed> listed_;  // the run list, by doorbell
  std::deque<uint32_t> waiting_;       // its queues that are not mapped, the next one first
  uint64_t turn_began_ = 0;
  bool turn_ends_ = false;  // its queues are being preempted
};

}  // namespace gpu
