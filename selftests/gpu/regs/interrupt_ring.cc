// SPDX-License-Identifier: GPL-2.0
#include "regs/interrupt_ring.h"

#include <algorithm>

#include "core/log.h"
#include "regs/osssys_4_2_0.h"

namespace gpu {
namespace {

// GC VMIDs 0..15, then MMHUB's.
constexpr uint32_t kLutBase = reg::kOsssysSegment0 + reg::osssys_4_2_0::IH_VMID_0_LUT.offset;
constexpr uint32_t kRingBase = reg::kOsssysSegment0 + reg::osssys_4_2_0::IH_RB_CNTL.offset;

// Words from kRingBase on.
constexpr uint32_t kControl = 0;
constexpr uint32_t kBase = 1;  // bits 39:8 of the address; kBaseHigh: 63:40
constexpr uint32_t kBaseHigh = 2;
constexpr uint32_t kReadPointer = 3;
constexpr uint32_t kWritePointer = 4;
constexpr uint32_t kWriteBackHigh = 5;
constexpr uint32_t kWriteBackLow = 6;
constexpr uint32_t kDoorbell = 7;
constexpr uint32_t kCamDoorbell = 8;  // IH_DOORBELL_RETRY_CAM

constexpr uint32_t kEnable = 1u << 0;
constexpr uint32_t kWriteBackEnable = 1u << 8;
constexpr uint32_t kOverflowEnable = 1u << 16;
constexpr uint32_t kInterruptEnable = 1u << 17;
constexpr uint32_t kOverflowClear = 1u << 31;
constexpr uint32_t kSpaceShift = 28;
constexpr uint32_t kSpaceTranslated = 4;

constexpr uint32_t kOverflowed = 1;  // in the write pointer
constexpr uint32_t kPointerMask = 0x3fffc;

constexpr uint32_t kDoorbellEnable = 1u << 28;
constexpr uint32_t kDoorbellMask = 0x03ffffff;  // a dword index

size_t lut_index(Space space) { return space.vmid + (space.hub == Hub::kMm ? 16 : 0); }

// The driver's node_id_to_phys_map: AID a is 4a, its XCCs follow.
uint32_t node_of(const Interrupt& from) {
  if (from.from_mmhub) return 4 * from.instance;
  return 4 * (from.instance / 2) + 1 + from.instance % 2;
}

}  // namespace

amdgpu_criu::Status InterruptRing::claim(Registers& registers) {
  TRY(registers.claim(*this, kLutBase, kLutBase + kLutWords - 1));
  return registers.claim(*this, kRingBase, kRingBase + kRingWords - 1);
}

void InterruptRing::reset() {
  const std::lock_guard lock(mutex_);
  for (auto& lut : luts_) lut.fill(0);
  ring_.fill(0);
  cam_.fill({});
  reported_ = false;
}

uint32_t InterruptRing::read(uint32_t dword) {
  const std::lock_guard lock(mutex_);
  if (dword - kLutBase < kLutWords) return luts_[0][dword - kLutBase];
  return ring_[dword - kRingBase];
}

void InterruptRing::write(uint32_t dword, uint32_t value) {
  const std::lock_guard lock(mutex_);
  if (dword - kLutBase < kLutWords) {
    for (auto& lut : luts_) lut[dword - kLutBase] = value;
    return;
  }
  const uint32_t word = dword - kRingBase;
  if (word == kControl) return set_control(value);
  if (word == kReadPointer) return acknowledge(value);
  ring_[word] = value;
}

void InterruptRing::set_control(uint32_t value) {
  ring_[kControl] = value;
  if (!(value & kEnable)) cam_.fill({});
  if (value & kOverflowClear) ring_[kWritePointer] &= ~kOverflowed;
  if (signals() && ring_[kReadPointer] != (ring_[kWritePointer] & kPointerMask)) signal_();
}

uint32_t InterruptRing::pasid(Space space) const {
  if (space.vmid > 15 || space.instance >= luts_.size()) return 0;
  const std::lock_guard lock(mutex_);
  return luts_[space.instance][lut_index(space)] & 0xffff;
}

void InterruptRing::set_pasid(Space space, uint32_t pasid) {
  if (space.vmid > 15 || space.instance >= luts_.size()) return;
  const std::lock_guard lock(mutex_);
  luts_[space.instance][lut_index(space)] = pasid & 0xffff;
}

uint32_t InterruptRing::ring_bytes() const {
  const uint32_t log2_dwords = ring_[kControl] >> 1 & 31;
  return log2_dwords <= 16 ? 4u << log2_dwords : 0;
}

bool InterruptRing::signals() const {
  return (ring_[kControl] & kEnable) && (ring_[kControl] & kInterruptEnable);
}

std::optional<PhysicalAddress> InterruptRing::physical(uint64_t address) const {
  const uint32_t space = ring_[kControl] >> kSpaceShift & 7;
  if (space == spec_.bus_space) return PhysicalAddress{true, address};
  if (space != kSpaceTranslated || !translation_) return std::nullopt;
  const PhysicalRun run = translation_->translate({Hub::kMm, 0}, address, sizeof(uint32_t), true);
  if (run.cause != FaultCause::kNone || run.unbacked) return std::nullopt;
  return run.physical;
}

std::optional<uint32_t> InterruptRing::remember(const Interrupt& fault) {
  const uint64_t key = fault.data[0] | uint64_t{fault.data[1] & 0xf} << 32 |
                       uint64_t{fault.vmid} << 36 | uint64_t{fault.from_mmhub} << 40 |
                       uint64_t{fault.instance} << 41;
  if (std::ranges::find(cam_, std::optional(key)) != cam_.end()) return std::nullopt;
  const auto free = std::ranges::find(cam_, std::optional<uint64_t>());
  if (free == cam_.end()) return std::nullopt;
  *free = key;
  return static_cast<uint32_t>(free - cam_.begin());
}

void InterruptRing::raise(const Interrupt& from) {
  const uint64_t time = clock_.ticks();
  std::array<uint32_t, 8> entry = {from.client | uint32_t{from.source} << 8 |
                                       uint32_t{from.ring} << 16 | uint32_t{from.vmid & 15u} << 24 |
                                       uint32_t{from.from_mmhub} << 31,
                                   static_cast<uint32_t>(time),
                                   static_cast<uint32_t>(time >> 32) & 0xffff,
                                   (from.pasid & 0xffff) | (spec_.nodes ? node_of(from) << 16 : 0),
                                   from.data[0],
                                   from.data[1],
                                   from.data[2],
                                   from.data[3]};
  const std::lock_guard lock(mutex_);
  if (!(ring_[kControl] & kEnable)) return;
  if (from.retried) {
    const auto index = remember(from);
    if (!index) return;
    entry[6] = *index;
  }
  push(entry);
}

void InterruptRing::push(const std::array<uint32_t, 8>& entry) {
  const uint32_t bytes = ring_bytes();
  const uint64_t base = uint64_t{ring_[kBase]} << 8 | uint64_t{ring_[kBaseHigh] & 0xff} << 40;
  const uint32_t at = ring_[kWritePointer] & kPointerMask;
  const auto held = memory_.hold();
  const auto place = physical(base + at);
  const auto cells = place ? memory_.find(*place, kEntryBytes, true) : std::span<std::byte>();
  if (bytes < 2 * kEntryBytes || at >= bytes || at % kEntryBytes || cells.size() < kEntryBytes) {
    if (!std::exchange(reported_, true))
      model_fault("interrupt lost: IH ring at {:#x}, {} bytes, space {}, wptr {:#x}", base, bytes,
                  ring_[kControl] >> kSpaceShift & 7, at);
    return;
  }
  std::ranges::copy(std::as_bytes(std::span(entry)), cells.begin());
  const uint32_t next = (at + kEntryBytes) % bytes;
  uint32_t overflow = ring_[kWritePointer] & kOverflowed;
  if (next == ring_[kReadPointer] && (ring_[kControl] & kOverflowEnable)) overflow = kOverflowed;
  ring_[kWritePointer] = next | overflow;
  write_back();
  if (signals()) signal_();
}

void InterruptRing::write_back() {
  if (!(ring_[kControl] & kWriteBackEnable)) return;
  const uint64_t address =
      (uint64_t{ring_[kWriteBackHigh] & 0xffff} << 32 | ring_[kWriteBackLow]) & ~uint64_t{3};
  const auto place = physical(address);
  if ((!place || !memory_.store<uint32_t>(*place, ring_[kWritePointer])) &&
      !std::exchange(reported_, true))
    model_fault("IH write pointer cannot be written back to {:#x}", address);
}

void InterruptRing::acknowledge(uint32_t rptr) {
  ring_[kReadPointer] = rptr & kPointerMask;
  if (signals() && ring_[kReadPointer] != (ring_[kWritePointer] & kPointerMask)) signal_();
}

bool InterruptRing::ring_doorbell(uint32_t offset, uint64_t value) {
  const std::lock_guard lock(mutex_);
  const auto is = [&](uint32_t word) {
    const uint32_t doorbell = ring_[word];
    return doorbell & kDoorbellEnable && offset == (doorbell & kDoorbellMask) * 4;
  };
  if (is(kDoorbell)) {
    acknowledge(static_cast<uint32_t>(value));
  } else if (is(kCamDoorbell)) {
    if (value < kCamEntries) cam_[value].reset();
  } else {
    return false;
  }
  return true;
}

void InterruptRing::resignal() {
  const std::lock_guard lock(mutex_);
  if (signals() && ring_[kReadPointer] != (ring_[kWritePointer] & kPointerMask)) signal_();
}

}  // namespace gpu
