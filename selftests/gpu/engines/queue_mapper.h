// SPDX-License-Identifier: GPL-2.0
// Maps and unmaps queues: from an MQD to a queue that runs, with a VMID and a descriptor. Shared by
// the two kinds of scheduler. The thread of the command processor only.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "engines/compute_queue.h"
#include "engines/hqd.h"
#include "engines/queue_runner.h"
#include "regs/partitions.h"

namespace gpu {

class QueueMapper {
 public:
  using PausedSdma = std::vector<std::unique_lock<std::mutex>>;

  // table: of the command processor.
  QueueMapper(Context& context, QueueTable& table, SdmaRunners& sdma, HqdBank& bank)
      : context_(context), table_(table), sdma_(sdma), bank_(bank) {}

  void reset();
  // Pauses the SDMA engines of the partition, after what they had begun, as long as the result
  // exists. It has to exist while queues are found, mapped or unmapped.
  [[nodiscard]] PausedSdma pause_sdma();
  // The XCCs that this one works with; the first of them runs the HIQ and the user queues.
  Partition partition();

  // The VMIDs and descriptors (bits count pipes of 8 queues) for user queues.
  void set_resources(uint32_t vmids, uint64_t queues);

  // spec.slot: where the queue is shown. xccs: of the partition, each with an MQD.
  amdgpu_criu::Status map_compute(Queue::Spec spec, std::string_view kind, Pm4::Setup setup,
                                  unsigned xccs = 1);
  // The driver's ring of the graphics pipe; start: where it continues, if not as the MQD says.
  amdgpu_criu::Status map_graphics(Queue::Spec spec, Pm4::Setup setup,
                                   std::optional<uint64_t> start = {});
  // engine: of the chip.
  amdgpu_criu::Status map_sdma(Queue::Spec spec, unsigned engine);

  // A descriptor that set_resources() assigned; none if all are in use.
  std::optional<HqdSlot> free_slot();
  // True if none of the queues has waves; otherwise asks the queues to save them.
  bool preempted(std::span<Queue* const> queues);
  // From now on some preemptions take a while, at random.
  void delay(uint32_t seed) { random_.emplace(seed); }
  void unmap(Queue& queue, bool save);
  // Shows in the registers of an SDMA engine which user queue it is inside of, or none. False if
  // the chip has no such registers.
  bool show_selected(unsigned engine, std::optional<uint32_t> doorbell);

  // The VMID of a process; empty if none is free.
  std::optional<unsigned> vmid_for(uint64_t process);
  bool has_vmid(uint64_t process) const { return vmids_.contains(process); }
  // A VMID stays with its process as long as a queue of this owner uses it.
  void release_vmids(Queue::Owner owner);

  Queue* find(uint32_t doorbell);
  // Calls visit(Queue&) for each queue of the command processor and of the partition's SDMA
  // engines.
  template <typename Visit>
  void for_each(Visit visit) {
    table_.for_each(visit);
    for_each_sdma([&](QueueRunner& runner) { runner.queues().for_each(visit); });
  }

  // The queues of the command processor.
  QueueTable& table() { return table_; }
  HqdBank& bank() { return bank_; }

 private:
  template <typename Visit>
  void for_each_sdma(Visit visit) {
    const auto [first, end] = sdma_of_partition();
    for (unsigned engine = first; engine < end; ++engine) visit(*sdma_[engine]);
  }
  // Its first engine, and the one after its last.
  std::pair<unsigned, unsigned> sdma_of_partition();
  // True while a preemption that has nothing left to do still takes its time.
  bool dawdles();
  Queue& put(std::unique_ptr<Queue> queue, QueueTable& table);
  amdgpu_criu::Status add(const Queue::Spec& spec, const Pm4::Setup& setup, const HqdState& state);

  Context& context_;
  QueueTable& table_;
  SdmaRunners& sdma_;
  HqdBank& bank_;

  uint32_t vmid_mask_ = 0;
  uint64_t queue_mask_ = 0;
  std::map<uint64_t, unsigned> vmids_;  // of the processes that have queues
  unsigned last_vmid_ = 0;              // that was given to a process

  using Clock = std::chrono::steady_clock;
  std::optional<std::mt19937> random_;
  std::optional<Clock::time_point> done_at_;  // the preemption that takes a while
};

}  // namespace gpu
