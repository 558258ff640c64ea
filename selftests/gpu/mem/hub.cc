// SPDX-License-Identifier: GPL-2.0
#include "mem/hub.h"

namespace gpu {
namespace {

constexpr uint32_t kInvalidateEngines = 18;
constexpr uint32_t kClearFault = 1;  // in the fault control register

bool within(uint32_t word, uint32_t first, uint32_t count) {
  return word >= first && word < first + count;
}

// VM_L2_PROTECTION_FAULT_STATUS.PERMISSION_FAULTS: bit 0 page not valid, 1 read, 2 write, 3
// execute.
uint32_t status_of(unsigned vmid, bool for_write, FaultCause cause) {
  const bool permission = is_permission(cause);
  uint32_t status = vmid << 20 | uint32_t{for_write} << 18;
  const bool executes = cause == FaultCause::kNotExecutable;
  status |= (executes ? 8u : (for_write ? 4u : 2u) | (permission ? 0u : 1u)) << 4;
  if (cause == FaultCause::kOutOfRange || cause == FaultCause::kNoMemory) status |= 1u << 8;
  if (cause == FaultCause::kBadTable) status |= 1u << 1;
  return status;
}

}  // namespace

amdgpu_criu::Status HubRegisters::claim(Registers& registers) {
  return registers.claim(*this, spec_.base, spec_.base + at_.words - 1);
}

void HubRegisters::reset() {
  for (auto& word : words_) word = 0;
  for (Tlb& tlb : tlbs_) tlb.invalidate();
  for (auto& retries : retries_) retries = false;
  words_[at_.fb_base] = static_cast<uint32_t>(spec_.fb_base >> 24);
  words_[at_.fb_top] =
      static_cast<uint32_t>((spec_.fb_base + spec_.segment * spec_.nodes - 1) >> 24);
  if (spec_.nodes < 2 || spec_.hub != Hub::kGfx || !at_.xgmi_control) return;
  words_[*at_.xgmi_control] = spec_.node | (spec_.nodes - 1) << 4;
  words_[*at_.xgmi_control + 1] = static_cast<uint32_t>(spec_.segment >> 24);
}

uint32_t HubRegisters::read(uint32_t dword) {
  const uint32_t word = dword - spec_.base;
  // The semaphore is always free: accesses never overlap here.
  if (within(word, at_.invalidate_semaphore, kInvalidateEngines)) return 1;
  return words_[word];
}

void HubRegisters::write(uint32_t dword, uint32_t value) {
  const uint32_t word = dword - spec_.base;
  if (word == at_.fault_status || within(word, at_.invalidate_ack, kInvalidateEngines)) return;
  words_[word] = value;
  if (within(word, at_.invalidate_request, kInvalidateEngines)) {
    for (unsigned vmid = 0; vmid < kVmids; ++vmid) {
      if (value >> vmid & 1) tlbs_[vmid].invalidate();
    }
    words_[word - at_.invalidate_request + at_.invalidate_ack] = value & 0xffff;
  }
  if (word == at_.fault_control && (value & kClearFault)) {
    words_[at_.fault_status] = 0;
    words_[at_.fault_control] = value & ~kClearFault;
  }
}

uint64_t HubRegisters::pair(uint32_t word) const {
  return words_[word] | uint64_t{words_[word + 1]} << 32;
}

AddressSpace HubRegisters::context(unsigned vmid) const {
  const uint32_t control = words_[at_.context_control + vmid];
  return {.enabled = (control & 1) != 0,
          .depth = control >> 1 & 3,
          .block_size = control >> 3 & 15,
          .base = pair(at_.page_table_base + 2 * vmid),
          .start = (pair(at_.page_table_start + 2 * vmid) & 0xfffffffff) << 12,
          .end = (pair(at_.page_table_end + 2 * vmid) & 0xfffffffff) << 12 | 0xfff};
}

void HubRegisters::set_page_table_base(unsigned vmid, uint64_t base) {
  words_[at_.page_table_base + 2 * vmid] = static_cast<uint32_t>(base);
  words_[at_.page_table_base + 2 * vmid + 1] = static_cast<uint32_t>(base >> 32);
}

bool HubRegisters::retries(unsigned vmid) const {
  constexpr uint32_t kRetryFault = 1 << 7;  // RETRY_PERMISSION_OR_INVALID_PAGE_FAULT
  return retries_[vmid] && words_[at_.context_control + vmid] & kRetryFault;
}

uint64_t HubRegisters::fb_base() const { return uint64_t{words_[at_.fb_base] & 0xffffff} << 24; }
uint64_t HubRegisters::fb_end() const {
  return uint64_t{words_[at_.fb_top] & 0xffffff} << 24 | 0xffffff;
}

void HubRegisters::latch_fault(unsigned vmid, uint64_t address, bool for_write, FaultCause cause) {
  constexpr uint32_t kMoreFaults = 1;
  const uint32_t status = status_of(vmid, for_write, cause);
  uint32_t now = 0;
  while (!words_[at_.fault_status].compare_exchange_weak(now, now ? now | kMoreFaults : status)) {
  }
  if (now) return;
  words_[at_.fault_status + 1] = static_cast<uint32_t>(address >> 12);
  words_[at_.fault_status + 2] = static_cast<uint32_t>(address >> 44);
}

}  // namespace gpu
