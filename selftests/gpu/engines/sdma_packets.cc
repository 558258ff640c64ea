// SPDX-License-Identifier: GPL-2.0
// The SDMA packets.
#include <algorithm>
#include <array>
#include <type_traits>

#include "engines/atomics.h"
#include "engines/bulk.h"
#include "engines/sdma_queue.h"
#include "regs/nbio.h"
#include "regs/nbio_7_4.h"

namespace gpu {
namespace {

using Words = std::span<const uint32_t>;

template <uint64_t n>
uint64_t fixed(Words) {
  return n;
}
uint64_t nop_length(Words head) { return 1 + bits(head[0], 29, 16); }
uint64_t copy_length(Words head) { return bits(head[0], 27, 27) ? 9 : 7; }
uint64_t write_length(Words head) { return 4 + uint64_t{bits(head[3], 19, 0)} + 1; }

constexpr uint64_t kHdpFlush = 1u << 26;
constexpr uint32_t kInvalidateEngines = 18;
// A copy of exactly these words consumes poison. Tests inject errors by writing them.
constexpr auto kPoison = [] {
  std::array<uint32_t, 16> words;
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = 0xbad0ecc0 + i;
  return words;
}();

}  // namespace

const SdmaQueue::Packet* SdmaQueue::find(uint32_t header) {
  using namespace sdma;
  static constexpr uint8_t kAny = 0xff;
  static constexpr Packet kPackets[] = {
      {kNop, kAny, 1, nop_length, &SdmaQueue::nop, true},
      {kCopy, kCopyLinear, 1, copy_length, &SdmaQueue::copy_linear, true},
      {kCopy, kCopyLinearSubWindow, 1, fixed<13>, &SdmaQueue::copy_sub_window, true},
      {kWrite, 0, 4, write_length, &SdmaQueue::write, true},
      {kIndirect, kAny, 1, fixed<6>, &SdmaQueue::indirect, false},
      {kFence, kAny, 1, fixed<4>, &SdmaQueue::fence, true},
      {kTrap, kAny, 1, fixed<2>, &SdmaQueue::trap, true},
      {kPollRegMem, kPoll, 1, fixed<6>, &SdmaQueue::poll, false},
      {kPollRegMem, kPollRegWriteMem, 1, fixed<4>, &SdmaQueue::poll_reg_write_mem, true},
      {kPollRegMem, kVmInvalidation, 1, fixed<4>, &SdmaQueue::vm_invalidation, true},
      {kCondExe, kAny, 1, fixed<5>, &SdmaQueue::cond_exe, false},
      {kAtomic, kAny, 1, fixed<8>, &SdmaQueue::atomic_op, true},
      {kConstFill, 0, 1, fixed<5>, &SdmaQueue::const_fill, true},
      {kPtePde, 0, 1, fixed<10>, &SdmaQueue::gen_pte, true},
      {kTimestamp, kAny, 1, fixed<3>, &SdmaQueue::timestamp, true},
      {kSrbmWrite, kAny, 1, fixed<3>, &SdmaQueue::srbm_write, true},
      {kPreExe, kAny, 1, fixed<2>, &SdmaQueue::pre_exe, true},
      {kDummyTrap, kAny, 1, fixed<2>, &SdmaQueue::nop, true},
      {kGcrReq, kAny, 1, fixed<5>, &SdmaQueue::nop, true},
  };
  for (const Packet& packet : kPackets) {
    if (packet.opcode != bits(header, 7, 0)) continue;
    if (packet.subop == kAny || packet.subop == bits(header, 15, 8)) return &packet;
  }
  return nullptr;
}

amdgpu_criu::Result<Step> SdmaQueue::execute(Budget& budget) {
  auto step = execute_packet(budget);
  truncated_ = is_truncated(step);
  return step;
}

amdgpu_criu::Result<Step> SdmaQueue::execute_packet(Budget& budget) {
  Words words = TRY(stream_.peek(1));
  const Packet* packet = find(words[0]);
  if (!packet) {
    return amdgpu_criu::Error::of(EINVAL, "SDMA opcode {:#x}.{:#x} is not modelled",
                                  bits(words[0], 7, 0), bits(words[0], 15, 8));
  }
  words = TRY(stream_.peek(packet->head));
  if (words.size() < packet->head) return Step::kStarved;
  const uint64_t length = packet->length(words);
  words = TRY(stream_.peek(length));
  if (words.size() < length) return Step::kStarved;
  return run_handler(*packet, words.first(length), budget);
}

// A transfer that faults is dropped and the queue continues: amdgpu's default set-up for faults
// without retry (gfx90a, XNACK off) makes reads return the dummy page and drops writes. KFD evicts
// the process on the fault's interrupt.
amdgpu_criu::Result<Step> SdmaQueue::run_handler(const Packet& packet, Words words,
                                                 Budget& budget) {
  const uint64_t length = words.size();
  auto step = (this->*packet.handler)(words, budget);
  if (!step.ok()) {
    if (step.error().code() != EFAULT || !packet.drop_on_fault) return step;
    step = Step::kDone;
  }
  if (*step == Step::kDone && packet.opcode != sdma::kIndirect) stream_.advance(length);
  return step;
}

amdgpu_criu::Result<Step> SdmaQueue::nop(Words, Budget&) { return Step::kDone; }

amdgpu_criu::Result<Step> SdmaQueue::copy_linear(Words words, Budget& budget) {
  // The count has 22 bits on older engines and 30 since 4.4; the rest was reserved as zero.
  const uint64_t size = uint64_t{bits(words[1], 29, 0)} + 1;
  const uint64_t source = join(words[3], words[4]);
  const uint64_t target = join(words[5], words[6]);
  const Space space = stream_.space();
  if (words.size() == 7) {
    if (size == sizeof(kPoison)) TRY(consume_poison(source));
    return copy(context_.memory, space, source, target, size, stream_.progress(), budget);
  }
  // Broadcast: the same to a second target, one after the other.
  const uint64_t second = join(words[7], words[8]);
  uint64_t& progress = stream_.progress();
  if (progress < size) {
    const Step step = TRY(copy(context_.memory, space, source, target, size, progress, budget));
    if (step != Step::kDone) return step;
  }
  uint64_t rest = progress - size;
  const auto step = copy(context_.memory, space, source, second, size, rest, budget);
  progress = size + rest;
  return step;
}

amdgpu_criu::Result<Step> SdmaQueue::copy_sub_window(Words words, Budget& budget) {
  struct Side {
    uint64_t base, x, y, z, pitch, slice;
  };
  const auto side = [&](unsigned at) {
    return Side{.base = join(words[at], words[at + 1]),
                .x = bits(words[at + 2], 13, 0),
                .y = bits(words[at + 2], 29, 16),
                .z = bits(words[at + 3], 10, 0),
                .pitch = uint64_t{bits(words[at + 3], 31, 13)} + 1,
                .slice = uint64_t{bits(words[at + 4], 27, 0)} + 1};
  };
  const Side from = side(1);
  const Side to = side(6);
  const unsigned element = bits(words[0], 31, 29);
  const uint64_t width = uint64_t{bits(words[11], 13, 0)} + 1;
  const uint64_t height = uint64_t{bits(words[11], 29, 16)} + 1;
  const uint64_t depth = uint64_t{bits(words[12], 10, 0)} + 1;
  for (uint64_t& row = stream_.progress(); row < height * depth; ++row) {
    if (budget.bytes == 0) return Step::kMore;
    const auto address = [&](const Side& s) {
      const uint64_t line = (s.z + row / height) * s.slice + (s.y + row % height) * s.pitch + s.x;
      return s.base + (line << element);
    };
    Budget whole = {.bytes = width << element};
    uint64_t done = 0;
    TRY(copy(context_.memory, stream_.space(), address(from), address(to), width << element, done,
             whole));
    budget.use_bytes(width << element);
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::write(Words words, Budget& budget) {
  const Words data = words.subspan(4);
  budget.use_bytes(data.size_bytes());
  TRY(context_.memory.write(stream_.space(), join(words[1], words[2]), std::as_bytes(data)));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::indirect(Words words, Budget&) {
  const unsigned vmid = space().vmid ? space().vmid : bits(words[0], 19, 16);
  if (stream_.depth()) return amdgpu_criu::Error::of(EINVAL, "SDMA does not nest indirect buffers");
  TRY(stream_.call(join(words[1], words[2]), bits(words[3], 19, 0), vmid, words.size()));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::fence(Words words, Budget&) {
  TRY(context_.memory.store<uint32_t>(stream_.space(), join(words[1] & ~3u, words[2]), words[3]));
  return Step::kDone;
}

void SdmaQueue::interrupt(uint8_t source, uint32_t data) const {
  const auto& clients = context_.asic.sdma_clients;
  const bool has_engine = context_.asic.interrupts.sdma_ring_has_engine;
  const unsigned engine = has_engine ? setup_.engine << 4 : 0;
  context_.interrupts.raise({
      .client = clients[setup_.engine % clients.size()],
      .source = source,
      .ring = static_cast<uint8_t>((setup_.user ? ih::kSdmaRingUser : ih::kSdmaRingGfx) | engine),
      .vmid = static_cast<uint8_t>(spec_.vmid),
      .from_mmhub = space().hub == Hub::kMm,
      .instance = space().instance,
      .pasid = spec_.pasid,
      .data = {data, 0, 0, 0},
  });
}

amdgpu_criu::Status SdmaQueue::consume_poison(uint64_t address) {
  std::remove_const_t<decltype(kPoison)> words;
  TRY(context_.memory.read(stream_.space(), address, std::as_writable_bytes(std::span(words))));
  const auto source = context_.asic.interrupts.sdma_ecc;
  if (words == kPoison && source) interrupt(*source, 0);
  return {};
}

amdgpu_criu::Result<Step> SdmaQueue::trap(Words words, Budget&) {
  interrupt(context_.asic.interrupts.sdma_trap, bits(words[1], 27, 0));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::poll(Words words, Budget&) {
  if (words[0] & kHdpFlush) {
    context_.registers.write(nbio(reg::nbio_7_4::GPU_HDP_FLUSH_REQ), words[3]);
    return Step::kDone;
  }
  uint32_t value;
  if (bits(words[0], 31, 31)) {
    value = TRY(context_.memory.load<uint32_t>(stream_.space(), join(words[1] & ~3u, words[2])));
  } else {
    value = context_.registers.read(bits(words[1], 19, 2));
  }
  return poll_matches(bits(words[0], 30, 28), value & words[4], words[3]) ? Step::kDone
                                                                          : Step::kWait;
}

// An invalidation request to an engine of the GC hub, all of whose registers follow VM_L2_CNTL; it
// is acknowledged at once.
amdgpu_criu::Result<Step> SdmaQueue::vm_invalidation(Words words, Budget&) {
  const Asic& asic = context_.asic;
  const uint32_t engine = bits(words[0], 20, 16);
  if (stream_.privileged() && engine < kInvalidateEngines) {
    context_.registers.write(asic.gfx_hub + asic.gfx_hub_layout.invalidate_request + engine,
                             words[1]);
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::poll_reg_write_mem(Words words, Budget&) {
  const uint32_t value = context_.registers.read(bits(words[1], 19, 2));
  TRY(context_.memory.store<uint32_t>(stream_.space(), join(words[2] & ~3u, words[3]), value));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::cond_exe(Words words, Budget&) {
  const auto value =
      TRY(context_.memory.load<uint32_t>(stream_.space(), join(words[1] & ~3u, words[2])));
  if (value != words[3]) stream_.skip(bits(words[4], 13, 0));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::pre_exe(Words words, Budget&) {
  // Bit 0 of the device mask is this device; the ring has no other.
  if (!bits(words[0], 16, 16)) stream_.skip(bits(words[1], 13, 0));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::atomic_op(Words words, Budget&) {
  const uint32_t operation = bits(words[0], 31, 25);
  const AtomicOperands operands = {.source = join(words[3], words[4]),
                                   .compare = join(words[5], words[6])};
  const uint64_t old =
      TRY(atomic(context_.memory, stream_.space(), join(words[1], words[2]), operation, operands));
  const bool loop = bits(words[0], 16, 16) && atomic_is_compare_swap(operation);
  const uint64_t mask = atomic_is_64(operation) ? ~uint64_t{0} : 0xffffffff;
  return loop && (old & mask) != (operands.compare & mask) ? Step::kWait : Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::const_fill(Words words, Budget& budget) {
  const unsigned log2_element = std::min(bits(words[0], 31, 30), 2u);
  const uint64_t element = uint64_t{1} << log2_element;
  // The count is of bytes, less one, and whole elements are written.
  const uint64_t size = (uint64_t{bits(words[4], 29, 0)} | (element - 1)) + 1;
  return fill(context_.memory, stream_.space(), join(words[1], words[2]), size, words[3],
              static_cast<unsigned>(element), stream_.progress(), budget);
}

amdgpu_criu::Result<Step> SdmaQueue::gen_pte(Words words, Budget& budget) {
  const uint64_t target = join(words[1], words[2]);
  const uint64_t mask = join(words[3], words[4]);
  const uint64_t first = join(words[5], words[6]);
  const uint64_t increment = join(words[7], words[8]);
  const uint64_t count = uint64_t{bits(words[9], 18, 0)} + 1;
  std::array<uint64_t, 512> entries;
  for (uint64_t& done = stream_.progress(); done < count;) {
    if (budget.bytes == 0) return Step::kMore;
    const size_t now = std::min<uint64_t>(entries.size(), count - done);
    for (size_t i = 0; i < now; ++i) entries[i] = (first + (done + i) * increment) | mask;
    TRY(context_.memory.write(stream_.space(), target + done * 8,
                              std::as_bytes(std::span(entries).first(now))));
    done += now;
    budget.use_bytes(now * 8);
  }
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::timestamp(Words words, Budget&) {
  if (bits(words[0], 15, 8) == sdma::kTimestampSet) return Step::kDone;
  TRY(context_.memory.store<uint64_t>(stream_.space(), join(words[1] & ~7u, words[2]),
                                      Context::clock()));
  return Step::kDone;
}

amdgpu_criu::Result<Step> SdmaQueue::srbm_write(Words words, Budget&) {
  // Ignored from user space, as on hardware with register protection.
  if (stream_.privileged() && bits(words[0], 31, 28)) {
    context_.registers.write(bits(words[1], 17, 0), words[2]);
  }
  return Step::kDone;
}

}  // namespace gpu
