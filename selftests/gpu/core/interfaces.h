// SPDX-License-Identifier: GPL-2.0
// The interfaces between the blocks of the software GPU. Nothing here uses PCI or vfio-user.
//
// Threads: registers and doorbells are accessed from the transport thread, which must never wait
// for work of an engine. Engines have their own threads. Memory and InterruptSink may be used from
// any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpu {

struct Asic;

// The two kinds of translation hub: GC for the command processor, of which each XCC has one; MM for
// SDMA (MMHUB), of which each AID has one.
enum class Hub : uint8_t { kGfx, kMm };

// A virtual address space: VMID 0 is the driver's (frame buffer and GART apertures), 1..15 page
// tables.
struct Space {
  Hub hub;
  unsigned vmid;
  unsigned instance = 0;  // which hub of its kind
};

// The space of the driver's own queues and descriptors.
inline constexpr Space kKernelSpace = {Hub::kGfx, 0};

// GPUVM-translated memory. An access that does not translate returns EFAULT after it has reported
// the fault as the hardware does (status registers, interrupt), or EAGAIN if the caller must repeat
// the access until the driver has mapped the page; bytes before it may have been copied. Aligned 4-
// and 8-byte reads and writes are single accesses; a write is seen by the guest's CPUs only after
// everything written before it.
class Memory {
 public:
  // Keeps guest memory mapped here even if the guest unmaps it meanwhile. Never waits, and never
  // makes an unmap wait; the memory is released with the last Hold that saw it.
  using Hold = std::shared_ptr<const void>;

  virtual ~Memory() = default;
  virtual Hold hold() = 0;
  virtual amdgpu_criu::Status read(Space space, uint64_t address, std::span<std::byte> out) = 0;
  virtual amdgpu_criu::Status write(Space space, uint64_t address,
                                    std::span<const std::byte> data) = 0;
  // The longest prefix of [address, address + size) that is contiguous in host memory, for bulk
  // work; never empty. Valid while a Hold taken before the call exists, so: hold, window, use,
  // release, in bounded pieces (a few MiB).
  // The same for instructions, which the page has to permit.
  virtual amdgpu_criu::Result<std::span<std::byte>> code(Space space, uint64_t address,
                                                         size_t size) {
    return window(space, address, size, false);
  }
  virtual amdgpu_criu::Result<std::span<std::byte>> window(Space space, uint64_t address,
                                                           size_t size, bool for_write) = 0;
  // The host address of an aligned 4- or 8-byte cell, for compare-and-swap, add and the like. Valid
  // as long as a window.
  amdgpu_criu::Result<std::byte*> cell(Space space, uint64_t address, size_t size) {
    auto span = TRY(window(space, address, size, true));
    if (span.size() < size)
      return amdgpu_criu::Error::of(EFAULT, "cell at {:#x} crosses a page", address);
    return span.data();
  }

  template <typename T>
  amdgpu_criu::Result<T> load(Space space, uint64_t address) {
    T value;
    TRY(read(space, address, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
  template <typename T>
  amdgpu_criu::Status store(Space space, uint64_t address, T value) {
    return write(space, address, std::as_bytes(std::span(&value, 1)));
  }

  // MAP_PROCESS: which page tables a VMID of a hub uses from now on.
  // page_table_base is as in VM_CONTEXTn_PAGE_TABLE_BASE: physical | VALID | SYSTEM. retries: XNACK
  // is on, so accesses to pages that are not mapped are repeated.
  virtual void bind_vmid(Space space, uint32_t pasid, uint64_t page_table_base, bool retries) = 0;
  // INVALIDATE_TLBS: the hub drops the translations of a process, for all VMIDs that it has.
  virtual void invalidate_pasid(Space hub, uint32_t pasid) = 0;
};

// One entry of the interrupt ring (IH), before the ring adds time and vmid source.
struct Interrupt {
  uint8_t client;
  uint8_t source;
  uint8_t ring = 0;
  uint8_t vmid = 0;
  bool from_mmhub = false;
  unsigned instance = 0;  // AID if from_mmhub, else XCC
  bool retried = false;   // a fault of an access that is repeated until the driver has handled it
  uint32_t pasid = 0;
  std::array<uint32_t, 4> data = {};
};

class InterruptSink {
 public:
  virtual ~InterruptSink() = default;
  virtual void raise(const Interrupt& interrupt) = 0;
};

// An IP block's registers. Offsets are absolute dword offsets (SOC15: base + register).
class RegisterBlock {
 public:
  virtual ~RegisterBlock() = default;
  virtual std::string_view name() const = 0;
  virtual uint32_t read(uint32_t dword) = 0;
  virtual void write(uint32_t dword, uint32_t value) = 0;
};

// All registers, for packets that read or write them.
class Registers {
 public:
  virtual ~Registers() = default;
  virtual uint32_t read(uint32_t dword) = 0;
  virtual void write(uint32_t dword, uint32_t value) = 0;
  // Assigns [first, last] to a block; overlapping claims are an error that names both.
  virtual amdgpu_criu::Status claim(RegisterBlock& block, uint32_t first, uint32_t last) = 0;
};

class DoorbellSink {
 public:
  virtual ~DoorbellSink() = default;
  // offset: bytes into BAR2; size: 4 or 8.
  virtual void ring(uint32_t offset, uint64_t value, unsigned size) = 0;
};

// A set of engines, owned by the device. The transport thread calls ring() and reset(), which must
// not wait for work.
class Engine : public DoorbellSink {
 public:
  // Resets to the idle state after power-on. Afterwards there is no access to memory.
  virtual void reset() = 0;
  // Ends its threads.
  virtual void stop() = 0;
  // Statistics of executed compute kernels; empty if there were none.
  virtual std::string report() const = 0;
};

// Creates the engines of a device; they claim their registers here.
using EngineFactory = std::function<amdgpu_criu::Result<std::vector<std::unique_ptr<Engine>>>(
    const Asic&, Memory&, Registers&, InterruptSink&)>;

}  // namespace gpu
