// SPDX-License-Identifier: GPL-2.0
#include "engines/vcn.h"

#include <bit>

#include "engines/packets.h"
#include "engines/stream.h"

namespace gpu {
namespace {

constexpr uint32_t kClock = 1u << 9;   // UVD_VCPU_CNTL: CLK_EN
constexpr uint32_t kReset = 1u << 28;  // and BLK_RST
constexpr uint32_t kIdle = 2;          // UVD_STATUS
constexpr uint32_t kRing = 4;          // VCN_RB_ENABLE: RB1_EN
constexpr uint8_t kVcnClient = 0x10;
constexpr uint8_t kTrapSource = 119;

// Commands of UVD_PGFSM_CONFIG for a tile; 0 leaves it as it is.
constexpr uint32_t kPowerOn = 1;
constexpr uint32_t kPowerOff = 2;

enum Command : uint8_t {
  kNop = 0,
  kEnd = 1,
  kBuffer = 2,
  kFence = 3,
  kTrap = 4,
  kWriteRegister = 11,
  kWaitRegister = 12
};

// 0: there is no such command.
size_t words_of(uint32_t command) {
  switch (command) {
    case kNop:
    case kEnd:
    case kTrap:
      return 1;
    case kWriteRegister:
      return 3;
    case kFence:
    case kWaitRegister:
      return 4;
    case kBuffer:
      return 5;
    default:
      return 0;
  }
}

}  // namespace

amdgpu_criu::Status VcnEngine::claim() {
  TRY(context_.registers.claim(*this, at_.power, at_.power + 1));
  return context_.registers.claim(*this, at_.status, at_.status);
}

bool VcnEngine::firmware_runs() {
  return (context_.registers.read(at_.vcpu_control) & (kClock | kReset)) == kClock;
}

uint32_t VcnEngine::read(uint32_t dword) {
  if (dword == at_.status) return firmware_runs() ? kIdle : 0;
  return dword == at_.power + 1 ? off_.load() : 0;
}

void VcnEngine::write(uint32_t dword, uint32_t value) {
  if (dword != at_.power) return;
  uint32_t off = off_;
  for (unsigned tile = 0; tile < 32; tile += 2) {
    const uint32_t command = bits(value, tile + 1, tile);
    if (command == kPowerOn) off &= ~(3u << tile);
    if (command == kPowerOff) off |= kPowerOff << tile;
  }
  off_ = off;
}

void VcnEngine::doorbell(uint32_t offset, uint64_t value) {
  constexpr uint32_t kEnable = 1u << 30;
  const uint32_t control = context_.registers.read(at_.doorbell);
  if (!(control & kEnable) || (control & kDoorbellMask) != offset) return;
  const auto done = execute_ring(low32(value));
  if (!done.ok()) context_.report("VCN: " + done.error().message());
}

amdgpu_criu::Status VcnEngine::execute_ring(uint32_t wptr) {
  Registers& registers = context_.registers;
  const uint64_t base = join(registers.read(at_.ring_base), registers.read(at_.ring_base + 1));
  const uint32_t size = registers.read(at_.ring_size);
  const uint32_t rptr = registers.read(at_.rptr);
  if (!firmware_runs() || !(registers.read(at_.enable) & kRing))
    return amdgpu_criu::Error::of(EINVAL, "work for a ring that is off");
  if (!std::has_single_bit(size) || wptr >= size || rptr >= size)
    return amdgpu_criu::Error::of(EINVAL, "pointers {:#x} and {:#x} of a ring of {:#x}", rptr, wptr,
                                  size);
  Stream stream(context_.memory, {Hub::kMm, 0}, {.base = base, .dwords = size});
  stream.place().ring_next = rptr;
  TRY(stream.set_wptr(rptr + ((wptr - rptr) & (size - 1))));
  while (stream.settle()) {
    const uint32_t command = TRY(stream.peek(1))[0];
    const size_t words = words_of(command);
    if (!words) return amdgpu_criu::Error::of(EINVAL, "command {:#x}", command);
    const auto packet = TRY(stream.peek(words));
    if (packet.size() < words)
      return amdgpu_criu::Error::of(EINVAL, "command {:#x} is not complete", command);
    TRY(execute(packet));
    stream.advance(words);
    registers.write(at_.rptr, low32(stream.rptr() & (size - 1)));
  }
  return {};
}

amdgpu_criu::Status VcnEngine::execute(std::span<const uint32_t> packet) {
  switch (packet[0]) {
    case kBuffer:
      return check_packages({Hub::kMm, packet[1] & 0xf}, join(packet[2], packet[3]), packet[4]);
    case kFence:
      return context_.memory.store<uint32_t>({Hub::kMm, 0}, join(packet[1], packet[2]), packet[3]);
    case kTrap:
      context_.interrupts.raise({.client = kVcnClient, .source = kTrapSource, .from_mmhub = true});
      return {};
    case kWriteRegister:
      context_.registers.write(packet[1] / 4, packet[2]);
      return {};
    case kWaitRegister: {
      // All that the driver waits for is done at once.
      const uint32_t found = context_.registers.read(packet[1] / 4);
      if (((found ^ packet[3]) & packet[2]) == 0) return {};
      return amdgpu_criu::Error::of(EINVAL, "register {:#x} is {:#x}", packet[1] / 4, found);
    }
    default:
      return {};
  }
}

// Each begins with its size in bytes. A size of 0 ends them.
amdgpu_criu::Status VcnEngine::check_packages(Space space, uint64_t base, uint32_t dwords) {
  for (uint32_t at = 0; at < dwords;) {
    const auto bytes = TRY(context_.memory.load<uint32_t>(space, base + uint64_t{4} * at));
    if (!bytes) break;
    if (bytes < 8 || bytes % 4 || bytes / 4 > dwords - at)
      return amdgpu_criu::Error::of(EINVAL, "a package of {:#x} bytes in the last {} doublewords",
                                    bytes, dwords - at);
    at += bytes / 4;
  }
  return {};
}

}  // namespace gpu
