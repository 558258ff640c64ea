// SPDX-License-Identifier: GPL-2.0
// The queues of a run list take turns where descriptors, VMIDs or GWS do not suffice for all: after
// a while all of them are preempted, and those that waited longest are mapped first.
#include "engines/command_processor.h"

namespace gpu {
namespace {

constexpr uint64_t kTurn = 2'000'000;  // of Context::clock(): 20 ms

}  // namespace

void CommandProcessor::forget_listed(uint32_t doorbell) {
  std::erase(waiting_, doorbell);
  listed_.erase(doorbell);
}

unsigned CommandProcessor::gws_of(const Listed& listed) {
  const bool controls_gws = bits(listed.target.control, 12, 12);
  return controls_gws ? listed.process.waves.gws : 0;
}

bool CommandProcessor::fits(const Listed& listed) {
  unsigned gws = gws_of(listed);
  if (gws) mapper_.for_each([&](Queue& queue) { gws += queue.spec().gws; });
  if (gws > shader::Gws::kResources) return false;
  const bool is_compute =
      bits(listed.target.control, 28, 26) == 0 && !bits(listed.target.control, 3, 2);
  return !is_compute || mapper_.free_slot();
}

// False: it has to wait.
bool CommandProcessor::map_listed(const Listed& listed) {
  if (!fits(listed) || !bind_process(listed.process)) return false;
  const auto vmid = mapper_.vmid_for(listed.process.pasid);
  if (!vmid) return false;
  const Target& target = listed.target;
  map(target, listed.process,
      {.owner = target.issuer,
       .doorbell = target.doorbell,
       .vmid = *vmid,
       .pasid = listed.process.pasid,
       .mqd = target.mqd,
       .wptr_poll = target.wptr_poll,
       .is_static = is_static(target.control),
       .gws = gws_of(listed)});
  return true;
}

bool CommandProcessor::take_turns() {
  const uint64_t now = Context::clock();
  if (hang_preemption_ || (waiting_.empty() && !turn_ends_)) return false;
  if (!turn_ends_ && now - turn_began_ < kTurn) return true;
  const auto paused = mapper_.pause_sdma();
  // Queues that are saving their waves have to be unmapped, even if no other queue waits any more.
  turn_ends_ = true;
  std::vector<Queue*> mapped;
  mapper_.for_each([&](Queue& queue) {
    const Queue::Spec& spec = queue.spec();
    if (spec.owner == Queue::Owner::kRunList && listed_.contains(spec.doorbell) && !queue.hangs())
      mapped.push_back(&queue);
  });
  if (!mapper_.preempted(mapped)) return true;
  for (Queue* queue : mapped) {
    waiting_.push_back(queue->spec().doorbell);
    mapper_.unmap(*queue, true);
  }
  mapper_.release_vmids(Queue::Owner::kRunList);
  std::erase_if(waiting_, [&](uint32_t doorbell) { return map_listed(listed_.at(doorbell)); });
  turn_began_ = now;
  turn_ends_ = false;
  return true;
}

}  // namespace gpu
