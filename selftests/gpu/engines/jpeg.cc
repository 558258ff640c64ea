// SPDX-License-Identifier: GPL-2.0
#include "engines/jpeg.h"

#include "engines/packets.h"

namespace gpu {
namespace {

// Packets name registers of the engine by their offset in its segment plus this, and others by a
// pair of addresses.
constexpr uint32_t kInternal = 0x3a40;
constexpr uint32_t kExternalAddress = 0x1bfff;
constexpr uint32_t kExternalValue = 0x18000;

constexpr uint32_t kJobsDone = 3;     // JRBC_STATUS: those of the ring and of indirect buffers
constexpr uint32_t kWriteMemory = 8;  // a command of JPEG_GPCOM_CMD
constexpr uint8_t kVcnClient = 0x10;
constexpr uint8_t kDecoded = 153;  // the source of its interrupt

enum Type : uint8_t {
  kWrite = 0,
  kWaitJob = 2,
  kWaitRegister = 3,
  kWaitCommand = 4,
  kNop = 6,
  kTrap
};

}  // namespace

JpegEngine::JpegEngine(Context& context) : context_(context), at_(*context.asic.jpeg) {
  power_on();
}

amdgpu_criu::Status JpegEngine::claim() {
  TRY(context_.registers.claim(*this, at_.first, at_.last));
  return context_.registers.claim(*this, at_.doorbell, at_.doorbell);
}

void JpegEngine::power_on() { words_ = {{at_.status, kJobsDone}}; }

void JpegEngine::reset() {
  const std::lock_guard lock(mutex_);
  power_on();
}

uint32_t JpegEngine::word(uint32_t dword) {
  const std::lock_guard lock(mutex_);
  const auto found = words_.find(dword);
  return found == words_.end() ? 0 : found->second;
}

uint32_t JpegEngine::read(uint32_t dword) { return word(dword); }

void JpegEngine::write(uint32_t dword, uint32_t value) {
  const std::lock_guard lock(mutex_);
  if (dword != at_.status) words_[dword] = value;
}

void JpegEngine::doorbell(uint32_t offset, uint64_t value) {
  constexpr uint32_t kEnable = 1u << 30;
  const uint32_t control = word(at_.doorbell);
  if (!(control & kEnable) || (control & kDoorbellMask) != offset) return;
  const auto done = execute_ring(low32(value));
  if (!done.ok()) context_.report("JPEG: " + done.error().message());
}

amdgpu_criu::Status JpegEngine::execute_ring(uint32_t wptr) {
  const Space space = {Hub::kMm, 0};
  const uint64_t base = join(word(at_.ring_base), word(at_.ring_base + 1));
  const uint32_t size = word(at_.ring_size);
  if (wptr >= size || wptr % 2)
    return amdgpu_criu::Error::of(EINVAL, "write pointer {:#x} of a ring of {:#x}", wptr, size);
  for (uint32_t rptr = word(at_.rptr); rptr != wptr; rptr = (rptr + 2) % size) {
    const auto packet = TRY(context_.memory.load<uint64_t>(space, base + uint64_t{4} * rptr));
    TRY(execute(low32(packet), high32(packet), true));
    write(at_.rptr, (rptr + 2) % size);
  }
  return {};
}

// Its size is the last register that the driver sets for an indirect buffer.
amdgpu_criu::Status JpegEngine::execute_buffer() {
  const Space space = {Hub::kMm, word(at_.buffer_vmid) & 0xf};
  const uint64_t base = join(word(at_.buffer_base), word(at_.buffer_base + 1));
  const uint32_t size = word(at_.buffer_size);
  for (uint32_t i = 0; i < size; i += 2) {
    const auto packet = TRY(context_.memory.load<uint64_t>(space, base + uint64_t{4} * i));
    TRY(execute(low32(packet), high32(packet), false));
  }
  return {};
}

amdgpu_criu::Status JpegEngine::execute(uint32_t header, uint32_t value, bool in_ring) {
  const uint32_t target = bits(header, 17, 0);
  switch (bits(header, 31, 28)) {
    case kWrite:
      return set(target, value, in_ring);
    case kWaitRegister:
      return wait(target, value);
    case kTrap:
      context_.interrupts.raise({.client = kVcnClient, .source = kDecoded, .from_mmhub = true});
      return {};
    case kWaitJob:
    case kWaitCommand:
    case kNop:
      return {};
    default:
      return amdgpu_criu::Error::of(EINVAL, "packet {:#x}", header);
  }
}

amdgpu_criu::Status JpegEngine::set(uint32_t target, uint32_t value, bool in_ring) {
  if (target == kExternalAddress) {
    external_ = value;
    return {};
  }
  if (target == kExternalValue) {
    context_.registers.write(external_ / 4, value);
    return {};
  }
  const uint32_t dword = at_.segment + target - kInternal;
  if (target < kInternal || dword < at_.first || dword > at_.last)
    return amdgpu_criu::Error::of(EINVAL, "a write to {:#x}", target);
  write(dword, value);
  if (dword == at_.buffer_size && in_ring) return execute_buffer();
  if (dword != at_.command || value != kWriteMemory) return {};
  const uint64_t to = join(word(at_.write_base), word(at_.write_base + 1));
  return context_.memory.store<uint32_t>({Hub::kMm, 0}, to, word(at_.command + 1));
}

// All that the driver waits for is done at once: invalidations, semaphores, earlier writes.
amdgpu_criu::Status JpegEngine::wait(uint32_t target, uint32_t mask) {
  if (target != kExternalValue) return {};
  const uint32_t found = context_.registers.read(external_ / 4) & mask;
  if (found == (word(at_.reference) & mask)) return {};
  return amdgpu_criu::Error::of(EINVAL, "register {:#x} is {:#x}", external_ / 4, found);
}

}  // namespace gpu
