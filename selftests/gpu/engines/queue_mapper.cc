// SPDX-License-Identifier: GPL-2.0
#include "engines/queue_mapper.h"

#include "engines/sdma_queue.h"

namespace gpu {

void QueueMapper::reset() {
  vmid_mask_ = 0;
  queue_mask_ = 0;
  vmids_.clear();
  last_vmid_ = 0;
  done_at_.reset();
}

QueueMapper::PausedSdma QueueMapper::pause_sdma() {
  PausedSdma paused;
  for_each_sdma([&](QueueRunner& runner) { paused.push_back(runner.pause()); });
  return paused;
}

Partition QueueMapper::partition() {
  if (!context_.asic.has_partitions()) return {context_.xcc, 1};
  return Partition::of(context_.xcc, context_.registers.read(Partition::kControl));
}

std::pair<unsigned, unsigned> QueueMapper::sdma_of_partition() {
  const unsigned per_xcc = context_.asic.sdma_per_xcc();
  const auto [first, count] = partition();
  return {first * per_xcc, (first + count) * per_xcc};
}

Queue* QueueMapper::find(uint32_t doorbell) {
  Queue* found = nullptr;
  for_each([&](Queue& queue) {
    if (queue.spec().doorbell == doorbell) found = &queue;
  });
  return found;
}

// A queue that already has the doorbell is out of service from now on.
Queue& QueueMapper::put(std::unique_ptr<Queue> queue, QueueTable& table) {
  if (Queue* old = find(queue->spec().doorbell)) old->retire();
  return table.add(std::move(queue));
}

void QueueMapper::set_resources(uint32_t vmids, uint64_t queues) {
  vmid_mask_ = vmids & ~1u;
  queue_mask_ = queues;
}

amdgpu_criu::Status QueueMapper::add(const Queue::Spec& spec, const Pm4::Setup& setup,
                                     const HqdState& state) {
  auto queue = TRY(make_compute_queue(context_, spec, setup, state));
  if (spec.slot) bank_.show(*spec.slot, state);
  put(std::move(queue), table_).catch_up();
  return {};
}

amdgpu_criu::Status QueueMapper::map_compute(Queue::Spec spec, std::string_view kind,
                                             Pm4::Setup setup, unsigned xccs) {
  HqdState state = TRY(HqdState::load(context_.memory, spec.mqd, context_.asic.compute_mqd));
  if (!spec.wptr_poll) spec.wptr_poll = state.pair(mqd::kWptrPoll);
  setup.slot = spec.slot.value_or(HqdSlot{});
  spec.name = queue_name(kind, setup.slot);
  state.at(mqd::kVmid) = spec.vmid;
  state.at(mqd::kActive) = 1;
  if (xccs > 1) {
    const std::string fault = TRY(state.load_xccs(context_.memory, spec.mqd, xccs));
    if (!fault.empty()) context_.report(spec.name + ": " + fault);
  }
  state.is_user = spec.vmid != 0 && !state.is_older;
  if (state.is_user && state.lost) context_.report(spec.name + ": " + *state.lost);
  return add(spec, setup, state);
}

// Nothing is saved to its MQD: the driver writes it anew before it maps the ring again.
amdgpu_criu::Status QueueMapper::map_graphics(Queue::Spec spec, Pm4::Setup setup,
                                              std::optional<uint64_t> start) {
  HqdState state =
      TRY(HqdState::load_graphics(context_.memory, spec.mqd, context_.asic.compute_mqd));
  setup.slot = spec.slot.value_or(HqdSlot{});
  spec.name = queue_name("graphics ring", setup.slot);
  spec.mqd = 0;
  if (start) {
    state.at(mqd::kPqRptr) = low32(*start);
    state.set_pair(mqd::kPqWptr, *start);
  }
  state.at(mqd::kActive) = 1;
  return add(spec, setup, state);
}

amdgpu_criu::Status QueueMapper::map_sdma(Queue::Spec spec, unsigned engine) {
  const auto [first, end] = sdma_of_partition();
  if (engine < first || engine >= end)
    return amdgpu_criu::Error::of(EINVAL, "the partition has no SDMA engine {}", engine);
  spec.name = amdgpu_criu::formatted("SDMA{} queue at doorbell {:#x}", engine, spec.doorbell);
  spec.sdma = engine;
  auto queue = TRY(SdmaQueue::map(context_, spec, engine));
  put(std::move(queue), sdma_[engine]->queues()).catch_up();
  sdma_[engine]->wake();
  return {};
}

std::optional<HqdSlot> QueueMapper::free_slot() {
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (!(queue_mask_ >> bit & 1)) continue;
    const unsigned pipe = bit / HqdSlot::kQueuesPerPipe;
    const HqdSlot slot = {.me = 1 + pipe / HqdSlot::kPipesPerMe,
                          .pipe = pipe % HqdSlot::kPipesPerMe,
                          .queue = bit % HqdSlot::kQueuesPerPipe};
    if (!table_.find(slot)) return slot;
  }
  return std::nullopt;
}

// Waves save themselves, which takes several turns. Those of a queue without a save area run to
// their end. If that takes longer than the driver's time limit for preemption, the driver resets
// the GPU.
bool QueueMapper::preempted(std::span<Queue* const> queues) {
  bool done = true;
  for (Queue* queue : queues) {
    if (!queue->has_waves()) continue;
    queue->preempt();
    done = false;
  }
  return done && (queues.empty() || !dawdles());
}

bool QueueMapper::dawdles() {
  constexpr uint64_t kDelayedShare = 4, kLongest = 200;  // one in so many; ms
  if (!random_) return false;
  if (!done_at_) {
    const uint64_t chance = (*random_)() % (kDelayedShare * kLongest);
    if (chance >= kLongest) return false;
    done_at_ = Clock::now() + std::chrono::milliseconds(chance);
  }
  if (Clock::now() < *done_at_) return true;
  done_at_.reset();
  return false;
}

void QueueMapper::unmap(Queue& queue, bool save) {
  if (save) queue.save();
  queue.retire();
  if (const auto& slot = queue.spec().slot) bank_.deactivate(*slot);
  if (const auto engine = queue.spec().sdma) show_selected(*engine, std::nullopt);
}

bool QueueMapper::show_selected(unsigned engine, std::optional<uint32_t> doorbell) {
  constexpr uint32_t kSelected = 1;
  const auto& at = context_.asic.sdma_selected;
  if (!at) return false;
  const uint32_t first = context_.asic.sdma[engine];
  context_.registers.write(first + at->doorbell, doorbell.value_or(0));
  context_.registers.write(first + at->status, doorbell ? kSelected : 0);
  return true;
}

std::optional<unsigned> QueueMapper::vmid_for(uint64_t process) {
  if (const auto known = vmids_.find(process); known != vmids_.end()) return known->second;
  uint32_t free = vmid_mask_;
  for (const auto& [other, vmid] : vmids_) free &= ~(1u << vmid);
  if (!free) return std::nullopt;
  // In turn, so that code that keeps a VMID over a preemption finds another process there.
  const uint32_t above = free & ~((2u << last_vmid_) - 1);
  last_vmid_ = static_cast<unsigned>(std::countr_zero(above ? above : free));
  vmids_.emplace(process, last_vmid_);
  return last_vmid_;
}

void QueueMapper::release_vmids(Queue::Owner owner) {
  std::erase_if(vmids_, [&](const auto& entry) {
    bool used = false;
    for_each([&](Queue& queue) {
      used |= queue.spec().owner == owner && queue.spec().vmid == entry.second;
    });
    return !used;
  });
}

}  // namespace gpu
