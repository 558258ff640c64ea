// SPDX-License-Identifier: GPL-2.0
// Kernel dispatches of AQL queues. The kernel descriptor and its properties: LLVM's AMDGPUUsage,
// "Kernel Descriptor". Scratch is negotiated with ROCr as its DynamicQueueEventsHandler expects.
#include "engines/compute_queue.h"
#include "shader/dispatch.h"

namespace gpu {
namespace {

// hsa_kernel_dispatch_packet_t, in doublewords.
constexpr size_t kGroupSize = 1, kGrid = 3, kPrivateSize = 6, kGroupSegment = 7, kObject = 8,
                 kKernarg = 10;

// The kernel descriptor, in doublewords. The objects of ROCr's own kernels have the same layout.
constexpr size_t kDescriptorDwords = 16;
constexpr size_t kEntry = 4, kRsrc3 = 11, kRsrc1 = 12, kRsrc2 = 13, kProperties = 14;

enum Property : uint32_t {
  kPrivateSegmentBuffer = 1 << 0,
  kDispatchPtr = 1 << 1,
  kQueuePtr = 1 << 2,
  kKernargPtr = 1 << 3,
  kDispatchId = 1 << 4,
  kFlatScratchInit = 1 << 5,
  kPrivateSegmentSize = 1 << 6,
  kWave32 = 1 << 10,
};

constexpr uint32_t kUserSgprs = 16;
constexpr uint32_t kMaxItems = 1024;
constexpr uint32_t kCodeAlignment = 256;

// Fields of COMPUTE_PGM_RSRC2 that the descriptor does not determine.
constexpr uint32_t kTrapPresent = 1 << 6;
constexpr uint32_t kLdsSize = 0x1ff << 15;

// Fills user SGPRs densely, in the order of the properties.
struct UserData {
  std::span<uint32_t> words;
  size_t count = 0;
  bool fits = true;

  void add(uint32_t word) {
    fits = fits && count < words.size();
    if (fits) words[count++] = word;
  }
  void add_pair(uint64_t value) {
    add(low32(value));
    add(high32(value));
  }
};

}  // namespace

amdgpu_criu::Result<Step> AqlQueue::dispatch(const Packet& packet, Budget& budget) {
  if (!pm4_.launcher().has_waves()) {
    const Step step = TRY(start_dispatch(packet));
    if (step != Step::kDone) return step;
  }
  return run_dispatch(packet, budget);
}

// Fills COMPUTE_DIM and COMPUTE_NUM_THREAD; the grid counts work-items.
amdgpu_criu::Status AqlQueue::set_shape(const Packet& packet) {
  auto& words = registers().words;
  const std::array<uint32_t, 3> group = {bits(packet[kGroupSize], 15, 0),
                                         bits(packet[kGroupSize], 31, 16),
                                         bits(packet[kGroupSize + 1], 15, 0)};
  uint64_t items = 1;
  for (unsigned axis = 0; axis < 3; ++axis) {
    words[ComputeRegisters::kNumThreadX + axis] = group[axis];
    words[ComputeRegisters::kDimX + axis] = packet[kGrid + axis];
    items *= group[axis];
    if (!packet[kGrid + axis]) {
      return refuse(QueueException::kDispatchDimInvalid, aql::kErrorDimensions,
                    "a dispatch of an empty grid");
    }
  }
  if (!items || items > kMaxItems) {
    return refuse(
        QueueException::kDispatchWorkGroupSizeInvalid, aql::kErrorGroupSize,
        amdgpu_criu::formatted("a work-group of {} x {} x {}", group[0], group[1], group[2]));
  }
  words[ComputeRegisters::kInitiator] = initiator::kShaderEnable | initiator::kPartialGroups |
                                        initiator::kForceStartAt000 |
                                        initiator::kUseThreadDimensions;
  return {};
}

// kDone: the waves may run.
amdgpu_criu::Result<Step> AqlQueue::start_dispatch(const Packet& packet) {
  if (!bits(packet[0], 17, 16)) {
    return refuse(QueueException::kDispatchDimInvalid, aql::kErrorDimensions,
                  "a dispatch without dimensions");
  }
  TRY(set_shape(packet));
  const uint32_t lds_bytes = packet[kGroupSegment];
  if (lds_bytes > shader::kMaxLds) {
    return refuse(QueueException::kDispatchGroupSegmentSizeInvalid, aql::kErrorGroupMemory,
                  amdgpu_criu::formatted("{} bytes of LDS", lds_bytes));
  }
  const uint64_t object = join(packet[kObject], packet[kObject + 1]);
  std::array<uint32_t, kDescriptorDwords> descriptor = {};
  if (!object || object % 64) {
    return refuse(QueueException::kDispatchCodeInvalid, aql::kErrorCode,
                  amdgpu_criu::formatted("no kernel object at {:#x}", object));
  }
  TRY(context_.memory.read(space(), object, std::as_writable_bytes(std::span(descriptor))));
  const uint64_t code = object + join(descriptor[kEntry], descriptor[kEntry + 1]);
  if (code % kCodeAlignment) {
    return refuse(QueueException::kDispatchCodeInvalid, aql::kErrorCode,
                  amdgpu_criu::formatted("code at {:#x}, which is not aligned", code));
  }
  using Registers = ComputeRegisters;
  auto& words = registers().words;
  words[Registers::kPgmLo] = low32(code >> 8);
  words[Registers::kPgmLo + 1] = high32(code >> 8);
  words[Registers::kRsrc1] = descriptor[kRsrc1];
  words[Registers::kRsrc2] = (descriptor[kRsrc2] & ~(kLdsSize | kTrapPresent)) |
                             (words[Registers::kRsrc2] & kTrapPresent) |
                             (lds_bytes + shader::kLdsGranule - 1) / shader::kLdsGranule << 15;
  words[context_.asic.compute_mqd.rsrc3] = descriptor[kRsrc3];
  if (descriptor[kProperties] & kWave32) words[Registers::kInitiator] |= initiator::kWave32;
  if (!TRY(find_scratch(packet))) return Step::kWait;
  TRY(set_user_data(packet, descriptor[kProperties]));
  const amdgpu_criu::Status started = pm4_.launcher().start(space(), low32(read_index()));
  if (!started.ok()) {
    return refuse(QueueException::kDispatchRegisterInvalid, aql::kErrorRegisters,
                  started.error().message());
  }
  return Step::kDone;
}

// False: the runtime was asked for more scratch and has not answered. It answers by setting the
// signal to 0; then the same packet is examined again.
amdgpu_criu::Result<bool> AqlQueue::find_scratch(const Packet& packet) {
  const bool wanted = registers().words[ComputeRegisters::kRsrc2] & 1;
  if (!wanted) return true;
  const uint64_t fields = runtime_fields();
  if (!fields) {
    return refuse(QueueException::kDispatchRegisterInvalid, aql::kErrorRegisters,
                  "a kernel with private memory on a queue that has no scratch");
  }
  Memory& memory = context_.memory;
  if (stream_.place().stage == SavedPlace::kNeedsScratch) {
    const auto handle = TRY(memory.load<uint64_t>(space(), fields + aql::kInactiveSignal));
    if (TRY(memory.load<uint64_t>(space(), handle + aql::kSignalValue))) return false;
    stream_.place().stage = SavedPlace::kNew;
  }
  const bool narrow = registers().words[ComputeRegisters::kInitiator] & initiator::kWave32;
  const auto lane_bytes = TRY(memory.load<uint32_t>(space(), fields + aql::kScratchLaneBytes));
  if (packet[kPrivateSize] > uint64_t{lane_bytes} * (narrow ? 2 : 1)) {
    stream_.place().stage = SavedPlace::kNeedsScratch;
    signal_error(narrow ? aql::kNeedsScratch32 : aql::kNeedsScratch);
    return false;
  }
  registers().words[ComputeRegisters::kTmpringSize] =
      TRY(memory.load<uint32_t>(space(), fields + aql::kTmpringSize));
  if (has_architected_scratch(context_.cores.isa())) {
    pm4_.launcher().set_scratch(
        TRY(memory.load<uint64_t>(space(), fields + aql::kScratchLocation)));
  }
  return true;
}

amdgpu_criu::Status AqlQueue::set_user_data(const Packet& packet, uint32_t properties) {
  UserData data{std::span(registers().words)
                    .subspan(ComputeRegisters::kUserData0, ComputeRegisters::kUserData)};
  Memory& memory = context_.memory;
  const uint64_t fields = runtime_fields();
  if (!fields && properties & (kPrivateSegmentBuffer | kQueuePtr | kFlatScratchInit)) {
    return refuse(QueueException::kDispatchRegisterInvalid, aql::kErrorRegisters,
                  "a kernel that asks for the queue's scratch on a queue that has none");
  }
  if (properties & kPrivateSegmentBuffer) {
    std::array<uint32_t, 4> resource;
    TRY(memory.read(space(), fields + aql::kScratchDescriptor,
                    std::as_writable_bytes(std::span(resource))));
    for (const uint32_t word : resource) data.add(word);
  }
  if (properties & kDispatchPtr) data.add_pair(slot_address());
  if (properties & kQueuePtr) data.add_pair(fields - aql::kReadIdOffset);
  if (properties & kKernargPtr) data.add_pair(join(packet[kKernarg], packet[kKernarg + 1]));
  if (properties & kDispatchId) data.add_pair(read_index());
  if (properties & kFlatScratchInit) {
    data.add_pair(TRY(memory.load<uint64_t>(space(), fields + aql::kScratchLocation)));
  }
  if (properties & kPrivateSegmentSize) data.add(packet[kPrivateSize]);
  if (!data.fits) {
    return refuse(QueueException::kDispatchRegisterInvalid, aql::kErrorRegisters,
                  amdgpu_criu::formatted("a kernel with more than {} user SGPRs", kUserSgprs));
  }
  return {};
}

amdgpu_criu::Result<Step> AqlQueue::run_dispatch(const Packet& packet, Budget& budget) {
  using State = Launcher::State;
  Launcher& launcher = pm4_.launcher();
  switch (pm4_.run_waves(budget)) {
    case State::kRunning:
      return Step::kMore;
    case State::kHalted:
      return Step::kWait;
    case State::kSuspended:
      return Step::kStarved;
    case State::kIllegal:
      return refuse(QueueException::kDispatchCodeInvalid, aql::kErrorIllegalInstruction,
                    launcher.complaint());
    case State::kFault:
      stream_.place().stage = SavedPlace::kRefused;
      return amdgpu_criu::Error(EFAULT, launcher.complaint());
    case State::kDone:
      break;
  }
  const Step step = TRY(complete(packet));
  if (TRY(scratch_is_for_once())) {
    stream_.place().stage = SavedPlace::kUsedScratch;
    signal_error(aql::kScratchUsedOnce);
  }
  return step;
}

// True while the runtime has to reclaim scratch that it allocated for one dispatch. No packet
// starts before that.
amdgpu_criu::Result<bool> AqlQueue::scratch_is_for_once() {
  const uint64_t fields = runtime_fields();
  if (!fields) return false;
  const auto properties =
      TRY(context_.memory.load<uint32_t>(space(), fields + aql::kQueueProperties));
  if (properties & aql::kUseScratchOnce) return true;
  if (stream_.place().stage == SavedPlace::kUsedScratch) {
    stream_.place().stage = SavedPlace::kNew;
  }
  return false;
}

}  // namespace gpu
