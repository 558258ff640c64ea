// SPDX-License-Identifier: GPL-2.0
#include <algorithm>

#include "engines/atomics.h"
#include "engines/compute_queue.h"

namespace gpu {
namespace {

constexpr uint32_t kAtomicSub64 = 0x30;

uint64_t word_pair(std::span<const uint32_t> words, size_t at) {
  return join(words[at], words[at + 1]);
}

}  // namespace

AqlQueue::AqlQueue(Context& context, const Spec& spec, Pm4::Setup setup, Stream::Ring ring,
                   const HqdState& state)
    : Queue(context, spec, Space{Hub::kGfx, spec.vmid}, {}),
      pm4_(context, setup, state.xccs[0].compute),
      hqd_(state),
      ring_(ring) {}

// The descriptor counts doublewords also for AQL; CP_HQD_PQ_RPTR wraps, the write pointer does not.
amdgpu_criu::Status AqlQueue::start() {
  const uint64_t mask = ring_.dwords - 1;
  const uint64_t wptr = hqd_.pair(mqd::kPqWptr);
  const uint32_t rptr = hqd_.at(mqd::kPqRptr);
  const bool fits =
      hqd_.has_place && ((hqd_.place.ring_next * aql::kPacketDwords ^ rptr) & mask) == 0;
  stream_.restore(hqd_.place_at(fits ? hqd_.place.ring_next
                                     : (wptr - ((wptr - rptr) & mask)) / aql::kPacketDwords));
  TRY(pm4_.launcher().resume(hqd_, space(), spec_.mqd, low32(read_index())));
  state_ = State::kRunnable;
  return {};
}

void AqlQueue::preempt() {
  preempting_ = true;
  pm4_.launcher().preempt();
}

void AqlQueue::save() {
  if (!spec_.mqd) return;
  const uint64_t dwords = read_index() * aql::kPacketDwords;
  hqd_.at(mqd::kPqRptr) = static_cast<uint32_t>(dwords & (ring_.dwords - 1));
  hqd_.set_pair(mqd::kPqWptr, dwords);
  hqd_.place = stream_.place();
  if (!pm4_.launcher().save(hqd_, space(), spec_.mqd).ok() ||
      !hqd_.save(context_.memory, spec_.mqd).ok()) {
    context_.report(spec_.name + ": its MQD cannot be written");
  }
}

// The end of the packets is read from the queue itself; the value only signals that there are
// packets.
void AqlQueue::doorbell(uint64_t, unsigned) {
  if (state_ == State::kIdle) state_ = State::kRunnable;
}

void AqlQueue::catch_up() { doorbell(0, 8); }

uint64_t AqlQueue::slot_address() const {
  const uint64_t index = stream_.rptr();
  return ring_.base + (index & (slots() - 1)) * aql::kPacketBytes;
}

uint64_t AqlQueue::packet_address() const {
  return stream_.depth() ? stream_.next_address() : slot_address();
}

bool AqlQueue::run(Budget& budget) {
  bool worked = false;
  while (!retired()) {
    if (budget.spent()) {
      state_ = State::kRunnable;
      break;
    }
    const auto result = step(budget);
    if (!result.ok()) {
      repeat_or_stop(result.error());
      break;
    }
    if (*result == Step::kDone || *result == Step::kMore) {
      worked = true;
      continue;
    }
    state_ = *result == Step::kWait ? State::kWaiting : State::kIdle;
    break;
  }
  return worked;
}

amdgpu_criu::Result<Step> AqlQueue::step(Budget& budget) {
  --budget.packets;
  if (preempting_ && !has_waves()) return Step::kStarved;
  if (stream_.settle()) return run_buffer(budget);
  return next_packet(budget);
}

amdgpu_criu::Result<Step> AqlQueue::run_buffer(Budget& budget) {
  auto step = pm4_.execute(stream_, budget);
  truncated_ = !step.ok() && step.error().code() == Stream::kTruncated;
  return step;
}

amdgpu_criu::Result<Step> AqlQueue::next_packet(Budget& budget) {
  // Kept over preemption: each error is reported once.
  if (stream_.place().stage == SavedPlace::kRefused) return Step::kStarved;
  if (stream_.place().stage == SavedPlace::kUsedScratch && TRY(scratch_is_for_once())) {
    return Step::kWait;
  }
  if (spec_.wptr_poll) {
    const auto write_index = TRY(context_.memory.load<uint64_t>(space(), spec_.wptr_poll));
    if (write_index == read_index()) return Step::kStarved;
  }
  Packet packet;
  TRY(context_.memory.read(space(), slot_address(), std::as_writable_bytes(std::span(packet))));
  if (bits(packet[0], 7, 0) == aql::kInvalid) return Step::kStarved;
  if (!stream_.place().started) stream_.place().started = Context::clock();
  return run_packet(packet, budget);
}

amdgpu_criu::Result<Step> AqlQueue::run_packet(const Packet& packet, Budget& budget) {
  switch (bits(packet[0], 7, 0)) {
    case aql::kBarrierAnd:
      return barrier(packet, true);
    case aql::kBarrierOr:
      return barrier(packet, false);
    case aql::kVendor:
      return vendor(packet);
    case aql::kKernelDispatch:
      return dispatch(packet, budget);
    case aql::kAgentDispatch:
      return refuse(QueueException::kUnsupported, aql::kErrorInvalidPacket,
                    "an agent dispatch is not for a GPU queue");
    default:
      return refuse(QueueException::kUnsupported, aql::kErrorInvalidPacket,
                    "a reserved AQL packet type");
  }
}

amdgpu_criu::Result<Step> AqlQueue::barrier(const Packet& packet, bool all) {
  bool any_signal = false;
  bool any_done = false;
  for (unsigned i = 0; i < aql::kDependencies; ++i) {
    const uint64_t handle = word_pair(packet, 2 + 2 * i);
    if (!handle) continue;
    any_signal = true;
    const auto value = TRY(context_.memory.load<uint64_t>(space(), handle + aql::kSignalValue));
    if (value == 0) any_done = true;
    if (value != 0 && all) return Step::kWait;
  }
  if (!all && any_signal && !any_done) return Step::kWait;
  return complete(packet);
}

amdgpu_criu::Result<Step> AqlQueue::vendor(const Packet& packet) {
  const uint32_t format = bits(packet[0], 23, 16);
  if (format == aql::kBarrierValue) return barrier_value(packet);
  if (format != aql::kPm4Ib || bits(packet[1], 15, 8) != pm4::kIndirectBuffer) {
    return refuse(QueueException::kVendorUnsupported, aql::kErrorInvalidPacket,
                  "a vendor packet that is not a PM4 indirect buffer");
  }
  if (stream_.place().stage == SavedPlace::kCalled) return complete(packet);
  // Words 1 to 4 are the PM4 packet that calls the buffer.
  TRY(stream_.call(word_pair(packet, 2), bits(packet[4], 19, 0), space().vmid, 0));
  stream_.place().stage = SavedPlace::kCalled;
  return Step::kMore;
}

amdgpu_criu::Result<Step> AqlQueue::barrier_value(const Packet& packet) {
  const uint64_t handle = word_pair(packet, 2);
  if (handle) {
    const auto value = TRY(context_.memory.load<uint64_t>(space(), handle + aql::kSignalValue));
    const auto masked = static_cast<int64_t>(value & word_pair(packet, 6));
    const auto wanted = static_cast<int64_t>(word_pair(packet, 4));
    bool met = false;
    switch (packet[8]) {
      case 0:
        met = masked == wanted;
        break;
      case 1:
        met = masked != wanted;
        break;
      case 2:
        met = masked < wanted;
        break;
      case 3:
        met = masked >= wanted;
        break;
      default:
        break;
    }
    if (!met) return Step::kWait;
  }
  return complete(packet);
}

// Order: the slot is freed, then the read index passes it, then the signal wakes the waiter.
amdgpu_criu::Result<Step> AqlQueue::complete(const Packet& packet) {
  const uint64_t start = stream_.place().started;
  const uint64_t handle = word_pair(packet, aql::kCompletionSignalDword);
  // First, because the steps that follow cannot be repeated.
  if (handle) TRY(context_.memory.cell(space(), handle + aql::kSignalValue, sizeof(uint64_t)));
  const uint32_t free = (packet[0] & ~0xffu) | aql::kInvalid;
  TRY(context_.memory.store<uint32_t>(space(), slot_address(), free));
  ++read_index();
  stream_.place().started = 0;
  stream_.place().stage = SavedPlace::kNew;
  if (const uint64_t report = hqd_.pair(mqd::kRptrReport) & ~uint64_t{7}) {
    TRY(context_.memory.store<uint64_t>(space(), report, read_index()));
  }
  if (handle) TRY(signal(handle, start));
  return Step::kDone;
}

amdgpu_criu::Status AqlQueue::signal(uint64_t handle, uint64_t start) {
  Memory& memory = context_.memory;
  TRY(memory.store<uint64_t>(space(), handle + aql::kSignalStart, start));
  TRY(memory.store<uint64_t>(space(), handle + aql::kSignalEnd, Context::clock()));
  TRY(atomic(memory, space(), handle + aql::kSignalValue, kAtomicSub64, {.source = 1}));
  // KFD reads the mailbox when the interrupt arrives, so the mailbox is written first.
  const auto mailbox = TRY(memory.load<uint64_t>(space(), handle + aql::kSignalMailbox));
  if (!mailbox) return {};
  const auto event = TRY(memory.load<uint32_t>(space(), handle + aql::kSignalEventId));
  TRY(memory.store<uint64_t>(space(), mailbox, event));
  pm4_.interrupt(event, ih::kSourceEndOfPipe);
  return {};
}

// The packet must not appear to succeed. An exception handler or a runtime gets the error, as for a
// packet that the firmware or a wave rejects, and the queue stops.
amdgpu_criu::Error AqlQueue::refuse(QueueException code, uint64_t error, std::string what) {
  stream_.place().stage = SavedPlace::kRefused;
  signal_error(error);
  pm4_.exception(code);
  return amdgpu_criu::Error(ENOSYS, std::move(what));
}

// The address of the fields of amd_queue_t, of which the first is the read index. 0 for a queue
// that ROCr did not make: it lacks the value that ROCr writes to one of them.
uint64_t AqlQueue::runtime_fields() {
  const uint64_t read_id = hqd_.pair(mqd::kRptrReport) & ~uint64_t{7};
  if (!read_id) return 0;
  const auto offset = context_.memory.load<uint32_t>(space(), read_id + aql::kReadIdOffsetField);
  return offset.ok() && *offset == aql::kReadIdOffset ? read_id : 0;
}

// A queue of ROCr has a signal for errors.
void AqlQueue::signal_error(uint64_t error) {
  const uint64_t fields = runtime_fields();
  if (!fields) return;
  Memory& memory = context_.memory;
  const auto handle = memory.load<uint64_t>(space(), fields + aql::kInactiveSignal);
  if (!handle.ok() || !*handle) return;
  if (!memory.store<uint64_t>(space(), *handle + aql::kSignalValue, error).ok()) return;
  const auto mailbox = memory.load<uint64_t>(space(), *handle + aql::kSignalMailbox);
  const auto event = memory.load<uint32_t>(space(), *handle + aql::kSignalEventId);
  if (!mailbox.ok() || !event.ok() || !*mailbox) return;
  if (memory.store<uint64_t>(space(), *mailbox, *event).ok()) {
    pm4_.interrupt(*event, ih::kSourceEndOfPipe);
  }
}

}  // namespace gpu
