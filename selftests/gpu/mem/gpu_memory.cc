// SPDX-License-Identifier: GPL-2.0
#include "mem/gpu_memory.h"

#include <algorithm>
#include <cstring>

#include "core/log.h"

namespace gpu {
namespace {

constexpr size_t kUnbackedWindow = 2 << 20;
constexpr uint64_t kVirtualMask = (1ull << 48) - 1;  // addresses may come sign-extended

constexpr uint8_t kClientVmc = 0x12;

std::string describe(const PhysicalRun& run) {
  switch (run.cause) {
    case FaultCause::kNone:
      return "no fault";
    case FaultCause::kOutOfRange:
      return "outside of the address space";
    case FaultCause::kBadTable:
      return "its page table is outside of memory";
    case FaultCause::kNotPresent:
      return "not mapped";
    case FaultCause::kNotReadable:
      return "not readable";
    case FaultCause::kNotWritable:
      return "not writable";
    case FaultCause::kNotExecutable:
      return "not executable";
    case FaultCause::kForbidden:
      return "marked as not accessible";
    case FaultCause::kNoMemory:
      return amdgpu_criu::formatted("mapped to {} address {:#x}, which has no memory",
                                    run.physical.system ? "system" : "VRAM", run.physical.address);
  }
  return "unknown";
}

// The ring field of a fault's entry has its reason: 3 page not valid, 4 read, 5 write, 6 execute
// (kfd_int_process_v9.c: prot_valid, prot_read, prot_write, prot_exec).
uint8_t protection_bits(bool for_write, FaultCause cause) {
  if (cause == FaultCause::kNotExecutable) return 0x40;
  return static_cast<uint8_t>((is_permission(cause) ? 0 : 0x08) | (for_write ? 0x20 : 0x10));
}

// A page that the driver can map while the access is repeated.
bool is_recoverable(FaultCause cause) {
  return cause == FaultCause::kNotPresent || cause == FaultCause::kNotReadable ||
         cause == FaultCause::kNotWritable;
}

Interrupt fault_interrupt(uint8_t client, Space space, uint32_t pasid, uint64_t address,
                          bool for_write, FaultCause cause) {
  Interrupt interrupt{.client = client, .source = 0};
  interrupt.ring = protection_bits(for_write, cause);
  interrupt.vmid = static_cast<uint8_t>(space.vmid);
  interrupt.from_mmhub = space.hub == Hub::kMm;
  interrupt.instance = space.instance;
  interrupt.pasid = pasid;
  interrupt.data[0] = static_cast<uint32_t>(address >> 12);
  interrupt.data[1] = static_cast<uint32_t>(address >> 44 & 0xf) | (for_write ? 0x20 : 0x40);
  return interrupt;
}

template <typename T>
void copy_cell(std::byte* to, const std::byte* from) {
  // The two ends may be shared with the guest: one access each.
  auto* source = const_cast<T*>(reinterpret_cast<const T*>(from));
  const T value = std::atomic_ref(*source).load(std::memory_order_acquire);
  std::atomic_ref(*reinterpret_cast<T*>(to)).store(value, std::memory_order_release);
}

bool is_aligned(const void* a, const void* b, size_t size) {
  return (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % size == 0;
}

void move_bytes(std::byte* to, const std::byte* from, size_t size) {
  if (size == 4 && is_aligned(to, from, 4)) return copy_cell<uint32_t>(to, from);
  if (size == 8 && is_aligned(to, from, 8)) return copy_cell<uint64_t>(to, from);
  std::atomic_thread_fence(std::memory_order_acq_rel);
  std::memcpy(to, from, size);
  std::atomic_thread_fence(std::memory_order_acq_rel);
}

}  // namespace

amdgpu_criu::Result<std::unique_ptr<GpuMemory>> GpuMemory::create(PhysicalMemory& physical,
                                                                  Hubs hubs, PasidTable& pasids,
                                                                  InterruptSink& interrupts,
                                                                  BusWrite bus_write) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  auto zeros = TRY(amdgpu_criu::Mapping::map(kUnbackedWindow, PROT_READ, kFlags));
  auto sink = TRY(amdgpu_criu::Mapping::map(kUnbackedWindow, PROT_READ | PROT_WRITE, kFlags));
  return std::unique_ptr<GpuMemory>(new GpuMemory(physical, std::move(hubs), pasids, interrupts,
                                                  std::move(bus_write), std::move(zeros),
                                                  std::move(sink)));
}

HubRegisters* GpuMemory::hub(Space space) const {
  const auto& hubs = space.hub == Hub::kGfx ? hubs_.gfx : hubs_.mm;
  return space.vmid < HubRegisters::kVmids && space.instance < hubs.size() ? hubs[space.instance]
                                                                           : nullptr;
}

PhysicalRun GpuMemory::translate(Space space, uint64_t address, uint64_t size, bool for_write) {
  HubRegisters* found = hub(space);
  if (!found) return {.cause = FaultCause::kOutOfRange};
  address &= kVirtualMask;
  HubRegisters& registers = *found;
  if (space.vmid == 0 && address >= registers.fb_base() && address <= registers.fb_end())
    return {.physical = {false, address - registers.fb_base()},
            .size = std::min(size, registers.fb_end() - address + 1)};
  const uint64_t offset = address % Tlb::kPage;
  PhysicalRun run = look_up(registers, space.vmid, address - offset,
                            std::min(size, kVirtualMask) + offset, for_write);
  if (run.cause != FaultCause::kNone) return run;
  run.physical.address += offset;
  run.size = std::min(run.size - offset, size);
  return run;
}

// A run of whole pages. Faults are not cached, because the driver need not invalidate unmapped
// pages.
PhysicalRun GpuMemory::look_up(HubRegisters& registers, unsigned vmid, uint64_t page, uint64_t size,
                               bool for_write) {
  Tlb& tlb = registers.tlb(vmid);
  if (const auto known = tlb.find(page, for_write)) return *known;
  const uint64_t epoch = tlb.epoch();
  const uint64_t whole = (size + Tlb::kPage - 1) / Tlb::kPage * Tlb::kPage;
  const PhysicalRun run = walker_.walk(registers.context(vmid), page, whole, for_write);
  if (run.cause == FaultCause::kNone && !run.unbacked) tlb.insert(page, for_write, run, epoch);
  return run;
}

std::span<std::byte> GpuMemory::host(const PhysicalRun& run, bool for_write) {
  if (!run.unbacked) return physical_.find(run.physical, run.size, for_write);
  const auto pages = for_write ? sink_.bytes() : zeros_.bytes();
  const uint64_t offset = run.physical.address & 0xfff;
  return pages.subspan(offset, std::min<uint64_t>(run.size, pages.size() - offset));
}

amdgpu_criu::Result<std::span<std::byte>> GpuMemory::window(Space space, uint64_t address,
                                                            size_t size, bool for_write) {
  if (size == 0) return amdgpu_criu::Error::of(EINVAL, "empty window at {:#x}", address);
  PhysicalRun run = translate(space, address, size, for_write);
  if (run.cause != FaultCause::kNone) return report(space, address, for_write, run);
  const auto bytes = host(run, for_write);
  if (!bytes.empty()) return bytes;
  run.cause = FaultCause::kNoMemory;
  return report(space, address, for_write, run);
}

amdgpu_criu::Result<std::span<std::byte>> GpuMemory::code(Space space, uint64_t address,
                                                          size_t size) {
  PhysicalRun run = translate(space, address, size, false);
  if (run.cause == FaultCause::kNone && !run.executable && space.vmid) {
    run.cause = FaultCause::kNotExecutable;
    return report(space, address, false, run);
  }
  return window(space, address, size, false);
}

amdgpu_criu::Status GpuMemory::read(Space space, uint64_t address, std::span<std::byte> out) {
  const auto held = hold();
  while (!out.empty()) {
    const auto piece = TRY(window(space, address, out.size(), false));
    move_bytes(out.data(), piece.data(), piece.size());
    address += piece.size();
    out = out.subspan(piece.size());
  }
  return {};
}

amdgpu_criu::Status GpuMemory::write(Space space, uint64_t address,
                                     std::span<const std::byte> data) {
  const auto held = hold();
  while (!data.empty()) {
    PhysicalRun run = translate(space, address, data.size(), true);
    if (run.cause != FaultCause::kNone) return report(space, address, true, run);
    const auto piece = host(run, true);
    const size_t size = piece.empty() ? run.size : piece.size();
    if (!piece.empty()) {
      move_bytes(piece.data(), data.data(), size);
    } else if (!run.physical.system || !bus_write_(run.physical.address, data.first(size))) {
      run.cause = FaultCause::kNoMemory;
      return report(space, address, true, run);
    }
    address += size;
    data = data.subspan(size);
  }
  return {};
}

void GpuMemory::bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool retries) {
  HubRegisters* found = hub(space);
  if (!found || space.vmid == 0) return;
  found->set_page_table_base(space.vmid, page_table_base);
  found->set_retries(space.vmid, retries);
  pasids_.set_pasid(space, pasid);
  // The driver invalidates nothing when it maps a process again whose pages have moved meanwhile.
  found->tlb(space.vmid).invalidate();
}

void GpuMemory::invalidate_pasid(Space space, uint32_t pasid) {
  HubRegisters* found = hub(space);
  for (space.vmid = 1; found && space.vmid < HubRegisters::kVmids; ++space.vmid) {
    if (pasids_.pasid(space) == pasid) found->tlb(space.vmid).invalidate();
  }
}

amdgpu_criu::Error GpuMemory::report(Space space, uint64_t address, bool for_write,
                                     const PhysicalRun& run) {
  constexpr uint32_t kRetry = 0x80;  // AMDGPU_GMC9_FAULT_SOURCE_DATA_RETRY
  address &= kVirtualMask;
  HubRegisters* const found = hub(space);
  const uint8_t client = space.hub == Hub::kGfx ? hubs_.gfx_fault_client : kClientVmc;
  Interrupt interrupt =
      fault_interrupt(client, space, pasids_.pasid(space), address, for_write, run.cause);
  if (found && found->retries(space.vmid) && is_recoverable(run.cause)) {
    interrupt.data[1] |= kRetry;
    interrupt.retried = true;
    interrupts_.raise(interrupt);
    return amdgpu_criu::Error::of(EAGAIN, "VMID {} waits for {:#x}", space.vmid, address);
  }
  ++faults_;
  if (found) found->latch_fault(space.vmid, address, for_write, run.cause);
  interrupts_.raise(interrupt);
  amdgpu_criu::Error error =
      amdgpu_criu::Error::of(EFAULT, "VMID {} cannot {} {:#x}: {}", space.vmid,
                             run.cause == FaultCause::kNotExecutable ? "execute"
                             : for_write                             ? "write"
                                                                     : "read",
                             address, describe(run));
  log_fault(Fault::kVm, error.message(), uint64_t{space.vmid} << 48 | address / Tlb::kPage);
  return error;
}

}  // namespace gpu
