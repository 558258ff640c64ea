// SPDX-License-Identifier: GPL-2.0
#include "engines/command_processor.h"

#include <algorithm>

#include "engines/sdma_engine.h"

namespace gpu {
namespace {

// MAP_QUEUES engine_sel without an extended one.
enum EngineSelect : uint32_t { kCompute = 0, kHiq = 1, kSdma0 = 2, kSdma1 = 3, kMesRing = 5 };

HqdSlot slot_of(uint32_t control) {
  return {.me = bits(control, 19, 18) + 1,
          .pipe = bits(control, 17, 16),
          .queue = bits(control, 15, 13)};
}

// SH_MEM_BASES: the top 16 bits of the addresses of LDS and of private memory.
shader::Apertures apertures_of(uint32_t bases) {
  if (!bases) return {};
  return {.shared = uint64_t{bits(bases, 31, 16)} << 48,
          .scratch = uint64_t{bits(bases, 15, 0)} << 48};
}

// SQ_SHADER_TBA and TMA.
uint64_t handler_address(uint32_t low, uint32_t high) { return canonical(join(low, high) << 8); }

// The word of MAP_PROCESS that has num_gws.
constexpr size_t kGws = 12;

// SH_MEM_CONFIG.RETRY_DISABLE: the driver sets it for processes without XNACK.
bool retries(uint32_t memory_config) { return !bits(memory_config, 12, 12); }

// SPI_GDBG_PER_VMID_CNTL is in the longer packet of Aldebaran only.
shader::TrapHandler trap_handler_of(std::span<const uint32_t> body) {
  constexpr size_t kSpiGdbg = 13;
  constexpr uint32_t kTrapEn = 1 << 3;
  return {.tba = handler_address(body[5], body[6]),
          .tma = handler_address(body[7], body[8]),
          .place_in_ttmps = body.size() > kSpiGdbg && body[kSpiGdbg] & kTrapEn};
}

}  // namespace

bool CommandProcessor::is_static(uint32_t control) { return bits(control, 23, 21) >= 2; }

amdgpu_criu::Result<Step> CommandProcessor::manage(uint8_t opcode, Words body,
                                                   Queue::Owner issuer) {
  struct Entry {
    uint8_t opcode;
    size_t least;
    amdgpu_criu::Result<Step> (CommandProcessor::*handler)(Words, Queue::Owner);
  };
  static constexpr Entry kEntries[] = {
      {pm4::kSetResources, 3, &CommandProcessor::set_resources},
      {pm4::kMapProcess, 10, &CommandProcessor::map_process},
      {pm4::kMapQueues, 6, &CommandProcessor::map_queues},
      {pm4::kUnmapQueues, 2, &CommandProcessor::unmap_queues},
      {pm4::kQueryStatus, 6, &CommandProcessor::query_status},
  };
  const auto paused = mapper_.pause_sdma();
  for (const Entry& entry : kEntries) {
    if (entry.opcode != opcode) continue;
    if (body.size() < entry.least) break;
    return (this->*entry.handler)(body, issuer);
  }
  return amdgpu_criu::Error::of(EINVAL, "scheduler packet {:#x} with {} doublewords", opcode,
                                body.size());
}

void CommandProcessor::activate(HqdSlot slot) {
  const HqdState state = bank_.state(slot);
  Queue::Spec spec = {.name = queue_name("KIQ", slot), .owner = Queue::Owner::kRegisters};
  spec.doorbell = state.at(mqd::kDoorbell) & kDoorbellMask;
  spec.vmid = bits(state.at(mqd::kVmid), 3, 0);
  spec.mqd = state.pair(mqd::kBase) & ~uint64_t{3};
  spec.slot = slot;
  const Pm4::Setup setup = {.slot = slot,
                            .vmid = spec.vmid,
                            .doorbell = spec.doorbell,
                            .scheduler = this,
                            .manages = Queue::Owner::kKiq};
  auto queue = make_compute_queue(context_, spec, setup, state);
  if (!queue.ok()) {
    context_.report(spec.name + ": " + queue.error().message());
    return;
  }
  if (Queue* old = table_.find(slot)) old->retire();
  table_.add(std::move(*queue));
}

void CommandProcessor::dequeue(HqdSlot slot) {
  if (Queue* queue = table_.find(slot)) queue->retire();
  bank_.deactivate(slot);
}

void CommandProcessor::reset_pipe(unsigned me, unsigned pipe) {
  for (unsigned queue = 0; queue < HqdSlot::kQueuesPerPipe; ++queue) {
    dequeue({.me = me, .pipe = pipe, .queue = queue});
  }
}

void CommandProcessor::reset() {
  current_process_ = {};
  listed_.clear();
  waiting_.clear();
  turn_ends_ = false;
  hiq_mqd_ = 0;
}

amdgpu_criu::Result<Step> CommandProcessor::set_resources(Words body, Queue::Owner issuer) {
  if (issuer != Queue::Owner::kRunList) return Step::kDone;
  mapper_.set_resources(bits(body[0], 15, 0), join(body[1], body[2]));
  return Step::kDone;
}

amdgpu_criu::Result<Step> CommandProcessor::map_process(Words body, Queue::Owner issuer) {
  if (issuer != Queue::Owner::kRunList) {
    return amdgpu_criu::Error::of(EINVAL, "a process is mapped outside of a run list");
  }
  current_process_ = {.pasid = bits(body[0], 15, 0),
                      .page_table = join(body[1], body[2]),
                      .retries = retries(body[4]),
                      .waves = {.apertures = apertures_of(body[3]),
                                .trap = trap_handler_of(body),
                                .gws = body.size() > kGws ? bits(body[kGws], 6, 0) : 0}};
  bind_process(current_process_);
  return Step::kDone;
}

// False: no VMID is left.
bool CommandProcessor::bind_process(const Process& process) {
  const auto vmid = mapper_.vmid_for(process.pasid);
  if (!vmid) return false;
  const Partition xccs = mapper_.partition();
  for (unsigned xcc = xccs.first; xcc < xccs.first + xccs.count; ++xcc) {
    const Space hubs[] = {{Hub::kGfx, *vmid, xcc},
                          {Hub::kMm, *vmid, context_.asic.aid_of_xcc(xcc)}};
    for (const Space hub : hubs)
      context_.memory.bind_vmid(hub, process.pasid, process.page_table, process.retries);
  }
  return true;
}

amdgpu_criu::Result<Step> CommandProcessor::map_queues(Words body, Queue::Owner issuer) {
  constexpr size_t kPerQueue = 5;
  // A run list replaces the previous one, even without an unmap in between.
  std::vector<Queue*> replaced;
  for (size_t at = 1; at + kPerQueue <= body.size(); at += kPerQueue) {
    if (Queue* old = mapper_.find(body[at] & kDoorbellMask)) replaced.push_back(old);
  }
  if (!mapper_.preempted(replaced)) return Step::kWait;
  for (size_t at = 1; at + kPerQueue <= body.size(); at += kPerQueue) {
    map_one({.issuer = issuer,
             .control = body[0],
             .doorbell = body[at] & kDoorbellMask,
             .mqd = join(body[at + 1], body[at + 2]),
             .wptr_poll = join(body[at + 3], body[at + 4])});
  }
  return Step::kDone;
}

void CommandProcessor::map_one(const Target& target) {
  if (Queue* old = mapper_.find(target.doorbell)) mapper_.unmap(*old, true);
  if (target.issuer == Queue::Owner::kRunList) {
    forget_listed(target.doorbell);
    const Listed& listed = listed_[target.doorbell] = {current_process_, target};
    if (map_listed(listed)) return;
    if (waiting_.empty()) turn_began_ = Context::clock();
    waiting_.push_back(target.doorbell);
    return;
  }
  Queue::Spec spec = {.owner = target.issuer,
                      .doorbell = target.doorbell,
                      .vmid = bits(target.control, 11, 8),
                      .mqd = target.mqd,
                      .wptr_poll = target.wptr_poll,
                      .is_static = is_static(target.control)};
  map(target, {}, std::move(spec));
}

// If a queue cannot be mapped, the others are still mapped.
void CommandProcessor::map(const Target& target, const Process& process, Queue::Spec spec) {
  const uint32_t engine = bits(target.control, 28, 26);
  const uint32_t extended = bits(target.control, 3, 2);
  // All XCCs of a partition read the HIQ; the first one acts for all.
  if (engine == kHiq && !extended && mapper_.partition().first != context_.xcc) return;
  amdgpu_criu::Status mapped;
  if (extended) {
    mapped = map_sdma(std::move(spec), engine + 8 * (extended - 1));
  } else if (engine == kSdma0 || engine == kSdma1) {
    mapped = map_sdma(std::move(spec), engine - kSdma0);
  } else if (engine == kMesRing && mes_) {
    spec.slot = slot_of(target.control);
    mapped = mes_->map(std::move(spec));
  } else if (engine == kCompute || engine == kHiq) {
    mapped = map_compute(target, process, std::move(spec));
  } else {
    mapped = amdgpu_criu::Error::of(EINVAL, "engine {} does not exist", engine);
  }
  if (!mapped.ok()) {
    context_.report(amdgpu_criu::formatted("a queue with doorbell {:#x} cannot be mapped: {}",
                                           target.doorbell, mapped.error().message()));
  }
}

// engine: counted from the first of the partition.
amdgpu_criu::Status CommandProcessor::map_sdma(Queue::Spec spec, unsigned engine) {
  engine += mapper_.partition().first * context_.asic.sdma_per_xcc();
  return mapper_.map_sdma(std::move(spec), engine);
}

amdgpu_criu::Status CommandProcessor::map_compute(const Target& target, const Process& process,
                                                  Queue::Spec spec) {
  const bool chosen_here = bits(target.control, 5, 4) == 1;
  if (chosen_here) {
    spec.slot = mapper_.free_slot();
  } else {
    spec.slot = slot_of(target.control);
    if (spec.slot->me > 2) return amdgpu_criu::Error::of(EINVAL, "micro engine {}", spec.slot->me);
    if (Queue* old = table_.find(*spec.slot)) mapper_.unmap(*old, false);
  }
  const bool is_hiq = target.issuer == Queue::Owner::kKiq && bits(target.control, 28, 26) == kHiq;
  if (is_hiq) hiq_mqd_ = target.mqd;
  const bool is_user = target.issuer == Queue::Owner::kRunList;
  Launcher::Process waves = process.waves;
  waves.gws = spec.gws;
  const Pm4::Setup setup = {.slot = {},
                            .vmid = spec.vmid,
                            .pasid = spec.pasid,
                            .doorbell = spec.doorbell,
                            .scheduler = is_hiq ? this : nullptr,
                            .manages = Queue::Owner::kRunList,
                            .process = waves};
  const std::string_view kind = is_hiq ? "HIQ" : is_user ? "user queue" : "KCQ";
  return mapper_.map_compute(std::move(spec), kind, setup, is_user ? mapper_.partition().count : 1);
}

amdgpu_criu::Result<Step> CommandProcessor::unmap_queues(Words body, Queue::Owner issuer) {
  enum Select : uint32_t { kByDoorbell = 0, kByPasid = 1, kAll = 2, kAllNonStatic = 3 };
  enum Action : uint32_t { kPreempt = 0, kReset = 1, kDisableProcess = 2, kPreemptKeep = 3 };
  const uint32_t action = bits(body[0], 1, 0);
  const uint32_t select = bits(body[0], 5, 4);
  if (issuer == Queue::Owner::kRunList && hang_preemption_) return Step::kWait;
  if (action == kPreemptKeep) return Step::kDone;  // for gfx rings, which do not exist here
  const bool save = action != kReset;
  const size_t count = std::min<size_t>(bits(body[0], 31, 29), body.size() - 1);
  const auto selects = [&](uint32_t doorbell, uint32_t pasid, bool is_static) {
    if (select == kByDoorbell) {
      return std::ranges::any_of(body.subspan(1, count),
                                 [&](uint32_t word) { return (word & kDoorbellMask) == doorbell; });
    }
    if (select == kByPasid) return pasid == bits(body[1], 15, 0);
    return select != kAllNonStatic || !is_static;
  };
  std::vector<Queue*> queues;
  mapper_.for_each([&](Queue& queue) {
    const Queue::Spec& spec = queue.spec();
    if (spec.owner == issuer && selects(spec.doorbell, spec.pasid, spec.is_static))
      queues.push_back(&queue);
  });
  if (issuer == Queue::Owner::kRunList) {
    std::erase_if(waiting_, [&](uint32_t doorbell) {
      const Listed& listed = listed_.at(doorbell);
      return selects(doorbell, listed.process.pasid, is_static(listed.target.control));
    });
  }
  if (save && !mapper_.preempted(queues)) return Step::kWait;
  const bool may_hang = save && issuer == Queue::Owner::kRunList;
  for (Queue* queue : queues) {
    if (!may_hang || !queue->hangs()) mapper_.unmap(*queue, save);
  }
  bool all_reported = true;
  for (const Queue* queue : queues) {
    if (!queue->retired() && !report_hung(*queue)) all_reported = false;
  }
  if (!all_reported) return Step::kWait;
  if (issuer == Queue::Owner::kRunList) mapper_.release_vmids(issuer);
  return Step::kDone;
}

// The queue stays mapped. The driver finds its doorbell in the HIQ's MQD or in registers of the
// SDMA engine, and resets it. False: it has no means to find it, and the HIQ hangs, too.
bool CommandProcessor::report_hung(const Queue& queue) {
  if (const auto engine = queue.spec().sdma)
    return mapper_.show_selected(*engine, queue.spec().doorbell);
  if (!hiq_mqd_) return true;
  const auto stored = context_.memory.store<uint32_t>(
      kKernelSpace, hiq_mqd_ + mqd::kHungDoorbell * uint64_t{4}, queue.spec().doorbell / 4);
  if (!stored.ok()) context_.report("the HIQ's MQD cannot be written");
  return true;
}

// Everything before is complete, so all kinds of fences are equivalent.
amdgpu_criu::Result<Step> CommandProcessor::query_status(Words body, Queue::Owner) {
  constexpr uint32_t kInterruptOnly = 0;
  if (bits(body[0], 31, 30) == kInterruptOnly) return Step::kDone;
  const amdgpu_criu::Status stored = context_.memory.store<uint64_t>(
      {Hub::kGfx, 0}, join(body[2] & ~3u, body[3]), join(body[4], body[5]));
  if (!stored.ok() && stored.error().code() != EFAULT) return stored.error();
  return Step::kDone;
}

}  // namespace gpu
