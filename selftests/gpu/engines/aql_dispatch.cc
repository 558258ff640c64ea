// SPDX-License-Identifier: GPL-2.0
// Kernel dispatches of AQL queues. The kernel descriptor and its properties: LLVM's AMDGPUUsage,
// "Kernel Descriptor". Scratch is negotiated with ROCr as its DynamicQueueEventsHandler expects.
#include "engines/compute_queue.h"

namespace gpu {
namespace {

// hsa_kernel_dispatch_packet_t, in doublewords.
constexpr size_t kGroupSize = 1, kGrid = 3, kPrivateSize = 6, kGroupSegment = 7, kObject = 8,
                 kKernarg = 10;

// The kernel descriptor, in doublewords. The objects of ROCr's own kernels have the same there.
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
};

constexpr uint32_t kUserSgprs = 16;
constexpr uint32_t kMaxItems = 1024;
constexpr uint32_t kMaxLds = 64 << 10;
constexpr unsigned kTurnInstructions = 1 << 15;

// Fills user SGPRs densely, in the order of the properties.
struct UserData {
  std::array<uint32_t, 16>& words;
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
  if (!dispatch_) {
    const Step step = TRY(start_dispatch(packet));
    if (step != Step::kDone) return step;
  }
  return run_dispatch(packet, budget);
}

// kDone: the waves may run.
amdgpu_criu::Result<Step> AqlQueue::start_dispatch(const Packet& packet) {
  const unsigned dimensions = bits(packet[0], 17, 16);
  if (!dimensions) {
    return refuse(QueueException::kDispatchDimInvalid, aql::kErrorDimensions,
                  "a dispatch without dimensions");
  }
  shader::DispatchSpec spec = {.apertures = pm4_.apertures()};
  spec.group_size = {bits(packet[kGroupSize], 15, 0), bits(packet[kGroupSize], 31, 16),
                     bits(packet[kGroupSize + 1], 15, 0)};
  uint64_t items = 1;
  for (unsigned axis = 0; axis < 3; ++axis) {
    spec.grid[axis] = packet[kGrid + axis];
    items *= spec.group_size[axis];
    if (!spec.grid[axis]) {
      return refuse(QueueException::kDispatchDimInvalid, aql::kErrorDimensions,
                    "a dispatch of an empty grid");
    }
  }
  if (!items || items > kMaxItems) {
    return refuse(QueueException::kDispatchWorkGroupSizeInvalid, aql::kErrorGroupSize,
                  amdgpu_criu::formatted("a work-group of {} x {} x {}", spec.group_size[0],
                                         spec.group_size[1], spec.group_size[2]));
  }
  spec.lds_bytes = packet[kGroupSegment];
  if (spec.lds_bytes > kMaxLds) {
    return refuse(QueueException::kDispatchGroupSegmentSizeInvalid, aql::kErrorGroupMemory,
                  amdgpu_criu::formatted("{} bytes of LDS", spec.lds_bytes));
  }
  const uint64_t object = join(packet[kObject], packet[kObject + 1]);
  std::array<uint32_t, kDescriptorDwords> descriptor = {};
  if (!object || object % 64) {
    return refuse(QueueException::kDispatchCodeInvalid, aql::kErrorCode,
                  amdgpu_criu::formatted("no kernel object at {:#x}", object));
  }
  TRY(context_.memory.read(space(), object, std::as_writable_bytes(std::span(descriptor))));
  spec.code = object + join(descriptor[kEntry], descriptor[kEntry + 1]);
  spec.rsrc1 = descriptor[kRsrc1];
  spec.rsrc2 = descriptor[kRsrc2];
  spec.rsrc3 = descriptor[kRsrc3];
  if (!TRY(find_scratch(packet, spec))) return Step::kWait;
  TRY(set_user_data(packet, descriptor[kProperties], spec));
  auto created = shader::Dispatch::create(context_.cores, context_.memory, space(), spec);
  if (!created.ok()) {
    return refuse(QueueException::kDispatchRegisterInvalid, aql::kErrorRegisters,
                  created.error().message());
  }
  dispatch_ = std::move(*created);
  return Step::kDone;
}

// False: the runtime was asked for more scratch and has not answered. Its answer is a signal of 0,
// and then the same packet is looked at again.
amdgpu_criu::Result<bool> AqlQueue::find_scratch(const Packet& packet, shader::DispatchSpec& spec) {
  const bool wanted = spec.rsrc2 & 1;
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
  const auto lane_bytes = TRY(memory.load<uint32_t>(space(), fields + aql::kScratchLaneBytes));
  if (packet[kPrivateSize] > lane_bytes) {
    stream_.place().stage = SavedPlace::kNeedsScratch;
    signal_error(aql::kNeedsScratch);
    return false;
  }
  const auto tmpring = TRY(memory.load<uint32_t>(space(), fields + aql::kTmpringSize));
  spec.scratch_waves = bits(tmpring, 11, 0);
  spec.scratch_wave_bytes = uint64_t{bits(tmpring, 24, 12)} << 10;
  return true;
}

amdgpu_criu::Status AqlQueue::set_user_data(const Packet& packet, uint32_t properties,
                                            shader::DispatchSpec& spec) {
  UserData data{spec.user_data};
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
  using State = shader::Dispatch::State;
  const State state = dispatch_->run(kTurnInstructions);
  budget.use_bytes(budget.bytes);
  if (state == State::kRunning) return Step::kMore;
  const auto ended = std::move(dispatch_);
  switch (state) {
    case State::kIllegal:
      return refuse(QueueException::kDispatchCodeInvalid, aql::kErrorIllegalInstruction,
                    ended->complaint());
    case State::kFault:
      stream_.place().stage = SavedPlace::kRefused;
      return amdgpu_criu::Error(EFAULT, ended->complaint());
    default:
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
