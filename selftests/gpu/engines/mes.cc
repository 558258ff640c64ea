// SPDX-License-Identifier: GPL-2.0
// Frames: the driver's mes_v11_api_def.h, whose structures are packed to 4 bytes. Positions are
// doublewords.
#include "engines/mes.h"

#include <algorithm>

#include "engines/atomics.h"

namespace gpu {
namespace {

namespace mes {
enum Opcode : uint32_t {
  kSetHwResources = 0,
  kAddQueue = 2,
  kRemoveQueue = 3,
  kSuspend = 6,
  kResume = 7,
  kReset = 8,
  kQueryStatus = 11,
  kSetDebugVmid = 13,
  kMisc = 14,
  kUpdateRootPageTable = 15,
  kSetHwResources1 = 19,
};
enum MiscOpcode : uint32_t {
  kWriteRegister = 0,
  kInvalidateGart = 1,
  kReadRegister = 3,
  kWaitRegMem = 4,
  kSetShaderDebugger = 5,
  kChangeConfig = 8,
};
enum QueueType : uint32_t { kGraphics = 0, kCompute = 1, kSdma = 2 };
}  // namespace mes

namespace resource_frame {
constexpr size_t kGfxVmids = 2, kComputeQueues = 5, kPipes = 8;
}
namespace add_frame {
constexpr size_t kPasid = 1, kPageTable = 2, kProcess = 10, kGang = 14, kDoorbell = 18, kMqd = 19,
                 kType = 27, kTrapHandler = 33, kFlags = 36, kTma = 41, kPipe = 48, kQueue = 49;
constexpr uint32_t kLegacy = 1 << 13, kExclusive = 1 << 14;
}  // namespace add_frame
namespace remove_frame {
constexpr size_t kDoorbell = 1, kFlags = 4, kFenceAddress = 11, kFenceData = 13;
constexpr uint32_t kPreemptLegacy = 1 << 2, kUnmapLegacy = 1 << 3;
}  // namespace remove_frame
namespace gang_frame {
constexpr size_t kFlags = 1, kContext = 2, kSuspendFence = 4, kSuspendValue = 6;
constexpr uint32_t kAll = 1;
}  // namespace gang_frame
namespace hung_frame {
constexpr size_t kFlags = 1, kDoorbell = 4, kPipe = 8, kQueue = 9, kMqd = 11, kRingDoorbell = 13,
                 kWptr = 14;
constexpr uint32_t kThisQueue = 1, kGraphicsRing = 1 << 3;
}  // namespace hung_frame
namespace misc_frame {
constexpr size_t kOpcode = 1, kData = 6;
}

uint64_t two(Mes::Frame frame, size_t at) { return join(frame[at], frame[at + 1]); }

// The driver sets SH_MEM_BASES of all VMIDs to the apertures that are the default here. A queue
// that runs alone has all resources of GWS; the frame has no number of them.
Launcher::Process process_of(Mes::Frame frame) {
  const bool exclusive = frame[add_frame::kFlags] & add_frame::kExclusive;
  return {.apertures = {},
          .trap = {.tba = canonical(two(frame, add_frame::kTrapHandler)),
                   .tma = canonical(two(frame, add_frame::kTma))},
          .gws = exclusive ? shader::Gws::kResources : 0};
}

// Frames count doorbells in doublewords.
uint32_t doorbell_of(uint32_t index) { return index * 4 & kDoorbellMask; }

}  // namespace

amdgpu_criu::Status Mes::map(Queue::Spec spec) {
  const HqdSlot slot = spec.slot.value_or(HqdSlot{});
  spec.name = queue_name("MES", slot);
  HqdState state = TRY(HqdState::load(context_.memory, spec.mqd, context_.asic.compute_mqd));
  state.at(mqd::kActive) = 1;
  auto queue = std::make_unique<MesQueue>(context_, spec, TRY(state.ring()), *this);
  TRY(queue->start(state));
  mapper_.bank().show(slot, state);
  mapper_.table().add(std::move(queue));
  return {};
}

const Mes::Command* Mes::find(uint32_t opcode) {
  static constexpr Command kCommands[] = {
      {mes::kSetHwResources, 50, &Mes::set_resources},
      {mes::kSetHwResources1, 1, &Mes::accept},
      {mes::kAddQueue, 37, &Mes::add_queue},
      {mes::kRemoveQueue, 5, &Mes::remove_queue},
      {mes::kSuspend, 7, &Mes::suspend},
      {mes::kResume, 4, &Mes::resume},
      {mes::kReset, 24, &Mes::reset_queue},
      {mes::kQueryStatus, 2, &Mes::accept},
      {mes::kSetDebugVmid, 1, &Mes::accept},
      {mes::kMisc, 2, &Mes::misc},
      {mes::kUpdateRootPageTable, 5, &Mes::accept},
  };
  const auto* found = std::ranges::find(kCommands, opcode, &Command::opcode);
  return found == std::end(kCommands) ? nullptr : found;
}

amdgpu_criu::Result<Step> Mes::execute(Frame frame, uint64_t& progress) {
  constexpr uint32_t kTypeScheduler = 1;
  const uint32_t header = frame[0];
  const Command* command = find(bits(header, 11, 4));
  if (bits(header, 3, 0) != kTypeScheduler || bits(header, 19, 12) != kFrameDwords || !command)
    return amdgpu_criu::Error::of(EINVAL, "MES frame {:#x} is not modelled", header);
  const auto paused = mapper_.pause_sdma();
  const Step step = TRY((this->*command->handler)(frame, progress));
  if (step != Step::kDone || std::exchange(failed_, false)) return step;
  const uint64_t fence = two(frame, command->status);
  if (fence)
    TRY(context_.memory.store<uint64_t>(kKernelSpace, fence, two(frame, command->status + 2)));
  return Step::kDone;
}

amdgpu_criu::Result<Step> Mes::accept(Frame, uint64_t&) { return Step::kDone; }

amdgpu_criu::Result<Step> Mes::set_resources(Frame frame, uint64_t&) {
  constexpr unsigned kQueues = HqdSlot::kQueuesPerPipe;
  uint64_t queues = 0;
  for (size_t pipe = 0; pipe < resource_frame::kPipes; ++pipe) {
    const uint64_t mask = bits(frame[resource_frame::kComputeQueues + pipe], kQueues - 1, 0);
    queues |= mask << (kQueues * pipe);
  }
  mapper_.set_resources(bits(frame[resource_frame::kGfxVmids], 15, 0), queues);
  return Step::kDone;
}

// A queue that cannot be mapped is reported; the driver sees no error.
amdgpu_criu::Result<Step> Mes::add_queue(Frame frame, uint64_t&) {
  const uint32_t doorbell = doorbell_of(frame[add_frame::kDoorbell]);
  const bool legacy = frame[add_frame::kFlags] & add_frame::kLegacy;
  if (!legacy) {
    lost_.erase(doorbell);
    Added& added = added_[doorbell];
    added = {};
    std::ranges::copy(frame, added.frame.begin());
  }
  if (const auto mapped = legacy ? map_legacy(frame) : map_added(frame); !mapped.ok()) {
    context_.report(amdgpu_criu::formatted("a queue with doorbell {:#x} cannot be mapped: {}",
                                           doorbell, mapped.error().message()));
  }
  return Step::kDone;
}

// For a ring of the driver, instead of what was there.
Queue::Spec Mes::take_slot(HqdSlot slot, uint32_t doorbell, uint64_t mqd) {
  if (Queue* old = mapper_.table().find(slot)) mapper_.unmap(*old, false);
  return {.owner = Queue::Owner::kKiq,
          .doorbell = doorbell_of(doorbell),
          .mqd = mqd,
          .is_static = true,
          .slot = slot};
}

// A ring of the driver itself, in a slot that the driver chooses.
amdgpu_criu::Status Mes::map_legacy(Frame frame) {
  const uint32_t type = frame[add_frame::kType];
  if (type > mes::kCompute)
    return amdgpu_criu::Error::of(EINVAL, "a driver's ring of type {}", type);
  Queue::Spec spec = take_slot({.me = type == mes::kGraphics ? 0u : 1u,
                                .pipe = frame[add_frame::kPipe] & 3,
                                .queue = frame[add_frame::kQueue] & 7},
                               frame[add_frame::kDoorbell], two(frame, add_frame::kMqd));
  const Pm4::Setup setup = {.slot = {}, .doorbell = spec.doorbell};
  if (type == mes::kGraphics) return mapper_.map_graphics(std::move(spec), setup);
  return mapper_.map_compute(std::move(spec), "KCQ", setup);
}

amdgpu_criu::Status Mes::map_added(Frame frame) {
  Queue::Spec spec = {.owner = Queue::Owner::kMes,
                      .doorbell = doorbell_of(frame[add_frame::kDoorbell]),
                      .pasid = bits(frame[add_frame::kPasid], 15, 0),
                      .mqd = two(frame, add_frame::kMqd)};
  const uint64_t process = two(frame, add_frame::kProcess);
  const bool bound = mapper_.has_vmid(process);
  const auto vmid = mapper_.vmid_for(process);
  if (!vmid) return amdgpu_criu::Error::of(EBUSY, "no VMID is left");
  spec.vmid = *vmid;
  // Only the self-test of the driver of 6.12 omits the flag. Its queues are never suspended.
  constexpr uint64_t kValid = 1;
  const uint64_t page_table = two(frame, add_frame::kPageTable);
  const bool self_test = !(page_table & kValid);
  // Nothing shows that the firmware invalidates translations for another queue of a process.
  if (!bound) context_.memory.bind_vmid({Hub::kGfx, *vmid}, spec.pasid, page_table | kValid, false);
  if (frame[add_frame::kType] == mes::kSdma) {
    const auto engine = TRY(
        context_.memory.load<uint32_t>(kKernelSpace, spec.mqd + sdma_mqd::kEngine * uint64_t{4}));
    return mapper_.map_sdma(std::move(spec), engine);
  }
  if (frame[add_frame::kType] == mes::kGraphics && self_test) {
    const Pm4::Setup setup = {
        .slot = {}, .vmid = spec.vmid, .pasid = spec.pasid, .doorbell = spec.doorbell};
    return mapper_.map_graphics(std::move(spec), setup);
  }
  if (frame[add_frame::kType] != mes::kCompute)
    return amdgpu_criu::Error::of(EINVAL, "user queues of type {} are not modelled",
                                  frame[add_frame::kType]);
  spec.slot = mapper_.free_slot();
  const auto fence =
      TRY(context_.memory.load<uint64_t>(kKernelSpace, spec.mqd + mqd::kFence * uint64_t{4}));
  const Pm4::Setup setup = {.slot = {},
                            .vmid = spec.vmid,
                            .pasid = spec.pasid,
                            .doorbell = spec.doorbell,
                            .fence = fence,
                            .process = process_of(frame)};
  return mapper_.map_compute(std::move(spec), "user queue", setup);
}

void Mes::reset() {
  for (const auto& [doorbell, added] : added_) lost_.insert(doorbell);
  added_.clear();
  failed_ = false;
}

bool Mes::hangs(uint32_t doorbell) {
  const Queue* queue = mapper_.find(doorbell);
  return queue && queue->spec().owner == Queue::Owner::kMes && queue->hangs();
}

bool Mes::unmap(uint32_t doorbell) {
  Queue* queue = mapper_.find(doorbell);
  if (!queue || queue->spec().owner != Queue::Owner::kMes) return true;
  if (!mapper_.preempted(std::span(&queue, 1))) return false;
  mapper_.unmap(*queue, true);
  return true;
}

amdgpu_criu::Result<Step> Mes::remove_queue(Frame frame, uint64_t&) {
  if (frame[remove_frame::kFlags] & (remove_frame::kPreemptLegacy | remove_frame::kUnmapLegacy))
    return remove_legacy(frame);
  const uint32_t doorbell = doorbell_of(frame[remove_frame::kDoorbell]);
  if (!added_.contains(doorbell)) {
    if (lost_.erase(doorbell) > 0) return Step::kDone;
    context_.report(
        amdgpu_criu::formatted("MES removes doorbell {:#x}, which has no queue", doorbell));
    return Step::kDone;
  }
  if (hangs(doorbell)) {
    failed_ = true;
    return Step::kDone;
  }
  if (!unmap(doorbell)) return Step::kWait;
  forget(added_.extract(doorbell).mapped());
  mapper_.release_vmids(Queue::Owner::kMes);
  return Step::kDone;
}

// What the firmware kept of a gang is no state of its queue: the next queue has other memory for
// it.
void Mes::forget(const Added& removed) {
  const auto shares = [&](size_t context) {
    return std::ranges::any_of(added_, [&](const auto& other) {
      return two(other.second.frame, context) == two(removed.frame, context);
    });
  };
  std::array<uint32_t, 1024> garbage;
  garbage.fill(0xdeadf11e);
  for (const size_t context : {add_frame::kGang, add_frame::kProcess}) {
    if (shares(context)) continue;
    (void)context_.memory.write(kKernelSpace, two(removed.frame, context),
                                std::as_bytes(std::span(garbage)));
  }
}

// The trailing fence says that what was in flight has ended; between packets nothing is.
amdgpu_criu::Result<Step> Mes::remove_legacy(Frame frame) {
  if (frame[remove_frame::kFlags] & remove_frame::kPreemptLegacy) {
    TRY(context_.memory.store<uint32_t>(kKernelSpace, two(frame, remove_frame::kFenceAddress),
                                        frame[remove_frame::kFenceData]));
    return Step::kDone;
  }
  if (Queue* queue = mapper_.find(doorbell_of(frame[remove_frame::kDoorbell])))
    mapper_.unmap(*queue, true);
  return Step::kDone;
}

amdgpu_criu::Result<Step> Mes::suspend(Frame frame, uint64_t&) {
  const bool all = frame[gang_frame::kFlags] & gang_frame::kAll;
  bool done = true, hung = false;
  for (auto& [doorbell, added] : added_) {
    if (!all && two(added.frame, add_frame::kGang) != two(frame, gang_frame::kContext)) continue;
    if (hangs(doorbell)) {
      hung = true;
      continue;
    }
    added.suspended = unmap(doorbell);
    done = done && added.suspended;
  }
  if (!done) return Step::kWait;
  failed_ = hung;
  if (hung) return Step::kDone;
  mapper_.release_vmids(Queue::Owner::kMes);
  if (const uint64_t fence = two(frame, gang_frame::kSuspendFence))
    TRY(context_.memory.store<uint32_t>(kKernelSpace, fence, frame[gang_frame::kSuspendValue]));
  return Step::kDone;
}

amdgpu_criu::Result<Step> Mes::resume(Frame frame, uint64_t&) {
  const bool all = frame[gang_frame::kFlags] & gang_frame::kAll;
  for (auto& [doorbell, added] : added_) {
    if (!added.suspended) continue;
    if (!all && two(added.frame, add_frame::kGang) != two(frame, gang_frame::kContext)) continue;
    added.suspended = false;
    if (const auto mapped = map_added(added.frame); !mapped.ok())
      context_.report(amdgpu_criu::formatted("a queue with doorbell {:#x} cannot be resumed: {}",
                                             doorbell, mapped.error().message()));
  }
  return Step::kDone;
}

// Detection of hung queues finds none, so the driver's list is not changed.
amdgpu_criu::Result<Step> Mes::reset_queue(Frame frame, uint64_t&) {
  if (frame[hung_frame::kFlags] & hung_frame::kGraphicsRing) TRY(reset_graphics(frame));
  if (!(frame[hung_frame::kFlags] & hung_frame::kThisQueue)) return Step::kDone;
  Queue* queue = mapper_.find(doorbell_of(frame[hung_frame::kDoorbell]));
  if (queue) mapper_.unmap(*queue, false);
  return Step::kDone;
}

// The driver does not map it again: it continues after the packets that the driver has written.
amdgpu_criu::Status Mes::reset_graphics(Frame frame) {
  const auto wptr =
      TRY(context_.memory.load<uint64_t>(kKernelSpace, two(frame, hung_frame::kWptr)));
  Queue::Spec spec = take_slot(
      {.me = 0, .pipe = frame[hung_frame::kPipe] & 3, .queue = frame[hung_frame::kQueue] & 7},
      frame[hung_frame::kRingDoorbell], two(frame, hung_frame::kMqd));
  const Pm4::Setup setup = {.slot = {}, .doorbell = spec.doorbell};
  return mapper_.map_graphics(std::move(spec), setup, wptr);
}

amdgpu_criu::Result<Step> Mes::misc(Frame frame, uint64_t& progress) {
  using misc_frame::kData;
  switch (frame[misc_frame::kOpcode]) {
    case mes::kWriteRegister:
      context_.registers.write(frame[kData], frame[kData + 1]);
      return Step::kDone;
    case mes::kReadRegister:
      TRY(context_.memory.store<uint32_t>(kKernelSpace, two(frame, kData + 1),
                                          context_.registers.read(frame[kData])));
      return Step::kDone;
    case mes::kWaitRegMem:
      return wait_reg_mem(frame, progress);
    case mes::kInvalidateGart:
    case mes::kSetShaderDebugger:
    case mes::kChangeConfig:
      return Step::kDone;
    default:
      return amdgpu_criu::Error::of(EINVAL, "MES operation {} is not modelled",
                                    frame[misc_frame::kOpcode]);
  }
}

// Waits for the masked bits of the reference in a register; or writes the reference to one, once,
// and waits for the masked bits in another.
amdgpu_criu::Result<Step> Mes::wait_reg_mem(Frame frame, uint64_t& progress) {
  using misc_frame::kData;
  const bool writes = frame[kData] == 1;
  const uint32_t reference = frame[kData + 1], mask = frame[kData + 2];
  if (writes && !std::exchange(progress, 1)) context_.registers.write(frame[kData + 3], reference);
  const uint32_t value = context_.registers.read(frame[kData + (writes ? 4 : 3)]);
  return (value & mask) == (reference & mask) ? Step::kDone : Step::kWait;
}

}  // namespace gpu
