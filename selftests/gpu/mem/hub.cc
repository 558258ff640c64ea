// SPDX-License-Identifier: GPL-2.0
#include "mem/hub.h"

namespace gpu {
namespace {

// Words from VM_L2_CNTL on; GC 9.4.2 and MMHUB 1.7 have the same layout.
constexpr uint32_t kFaultControl = 0x07;
constexpr uint32_t kFaultStatus = 0x0b;
constexpr uint32_t kFaultAddress = 0x0c;  // lo, hi; in pages
constexpr uint32_t kContextControl = 0x40;
constexpr uint32_t kInvalidateSemaphore = 0x51;
constexpr uint32_t kInvalidateRequest = 0x63;
constexpr uint32_t kInvalidateAck = 0x75;
constexpr uint32_t kInvalidateEngines = 18;
constexpr uint32_t kPageTableBase = 0xab;   // lo, hi a VMID
constexpr uint32_t kPageTableStart = 0xcb;  // in pages
constexpr uint32_t kPageTableEnd = 0xeb;
constexpr uint32_t kXgmiControl = 0x138;
constexpr uint32_t kXgmiSize = 0x139;
constexpr uint32_t kFbBase = 0x140;  // in 16 MiB
constexpr uint32_t kFbTop = 0x141;

constexpr uint32_t kVmids = 16;
constexpr uint32_t kClearFault = 1;  // in the fault control register

bool within(uint32_t word, uint32_t first, uint32_t count) {
  return word >= first && word < first + count;
}

// VM_L2_PROTECTION_FAULT_STATUS.PERMISSION_FAULTS: bit 0 page not valid, 1 read, 2 write.
uint32_t status_of(unsigned vmid, bool for_write, FaultCause cause) {
  const bool permission = cause == FaultCause::kNotReadable || cause == FaultCause::kNotWritable;
  uint32_t status = vmid << 20 | uint32_t{for_write} << 18;
  status |= ((for_write ? 4u : 2u) | (permission ? 0u : 1u)) << 4;
  if (cause == FaultCause::kOutOfRange || cause == FaultCause::kNoMemory) status |= 1u << 8;
  if (cause == FaultCause::kBadTable) status |= 1u << 1;
  return status;
}

}  // namespace

amdgpu_criu::Status HubRegisters::claim(Registers& registers) {
  return registers.claim(*this, base(), base() + kWords - 1);
}

void HubRegisters::reset() {
  for (auto& word : words_) word = 0;
  words_[kFbBase] = static_cast<uint32_t>(spec_.fb_base >> 24);
  words_[kFbTop] = static_cast<uint32_t>((spec_.fb_base + spec_.segment * spec_.nodes - 1) >> 24);
  if (spec_.nodes < 2 || spec_.hub != Hub::kGfx) return;
  words_[kXgmiControl] = spec_.node | (spec_.nodes - 1) << 4;
  words_[kXgmiSize] = static_cast<uint32_t>(spec_.segment >> 24);
}

uint32_t HubRegisters::read(uint32_t dword) {
  const uint32_t word = dword - base();
  // The semaphore is always free: accesses never overlap here.
  if (within(word, kInvalidateSemaphore, kInvalidateEngines)) return 1;
  return words_[word];
}

void HubRegisters::write(uint32_t dword, uint32_t value) {
  const uint32_t word = dword - base();
  if (word == kFaultStatus || within(word, kInvalidateAck, kInvalidateEngines)) return;
  words_[word] = value;
  // Nothing is cached here, so an invalidation completes at once.
  if (within(word, kInvalidateRequest, kInvalidateEngines))
    words_[word - kInvalidateRequest + kInvalidateAck] = value & 0xffff;
  if (word == kFaultControl && (value & kClearFault)) {
    words_[kFaultStatus] = 0;
    words_[kFaultControl] = value & ~kClearFault;
  }
}

uint64_t HubRegisters::pair(uint32_t word) const {
  return words_[word] | uint64_t{words_[word + 1]} << 32;
}

AddressSpace HubRegisters::context(unsigned vmid) const {
  if (vmid >= kVmids) return {};
  const uint32_t control = words_[kContextControl + vmid];
  return {.enabled = (control & 1) != 0,
          .depth = control >> 1 & 3,
          .block_size = control >> 3 & 15,
          .base = pair(kPageTableBase + 2 * vmid),
          .start = (pair(kPageTableStart + 2 * vmid) & 0xfffffffff) << 12,
          .end = (pair(kPageTableEnd + 2 * vmid) & 0xfffffffff) << 12 | 0xfff};
}

void HubRegisters::set_page_table_base(unsigned vmid, uint64_t base) {
  words_[kPageTableBase + 2 * vmid] = static_cast<uint32_t>(base);
  words_[kPageTableBase + 2 * vmid + 1] = static_cast<uint32_t>(base >> 32);
}

uint64_t HubRegisters::fb_base() const { return uint64_t{words_[kFbBase] & 0xffffff} << 24; }
uint64_t HubRegisters::fb_end() const {
  return uint64_t{words_[kFbTop] & 0xffffff} << 24 | 0xffffff;
}

void HubRegisters::latch_fault(unsigned vmid, uint64_t address, bool for_write, FaultCause cause) {
  constexpr uint32_t kMoreFaults = 1;
  const uint32_t status = status_of(vmid, for_write, cause);
  uint32_t now = 0;
  while (!words_[kFaultStatus].compare_exchange_weak(now, now ? now | kMoreFaults : status)) {
  }
  if (now) return;
  words_[kFaultAddress] = static_cast<uint32_t>(address >> 12);
  words_[kFaultAddress + 1] = static_cast<uint32_t>(address >> 44);
}

}  // namespace gpu
