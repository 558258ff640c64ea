// SPDX-License-Identifier: GPL-2.0
// GPUVM page tables of GFX9: from a virtual address to physical memory.
#pragma once

#include <cstdint>
#include <optional>

#include "mem/physical.h"

namespace gpu {

// Bits of page table entries (AMDGPU_PTE_*, AMDGPU_PDE_* for GFX9).
namespace pte {
inline constexpr uint64_t kValid = 1ull << 0;
inline constexpr uint64_t kSystem = 1ull << 1;
inline constexpr uint64_t kExecute = 1ull << 4;
inline constexpr uint64_t kRead = 1ull << 5;
inline constexpr uint64_t kWrite = 1ull << 6;
inline constexpr uint64_t kPrt = 1ull << 51;
inline constexpr uint64_t kPdeAsPte = 1ull << 54;
inline constexpr uint64_t kTranslateFurther = 1ull << 56;
inline constexpr uint64_t kPageMask = 0x0000fffffffff000ull;   // 47:12
inline constexpr uint64_t kTableMask = 0x0000ffffffffffc0ull;  // 47:6
}  // namespace pte

// The configuration of one VMID: VM_CONTEXTn_CNTL and the page table base, start and end registers.
struct AddressSpace {
  bool enabled = false;
  unsigned depth = 0;       // PAGE_TABLE_DEPTH: 0 is one flat table
  unsigned block_size = 0;  // PAGE_TABLE_BLOCK_SIZE: 9 with translate-further
  uint64_t base = 0;        // physical | VALID | SYSTEM
  uint64_t start = 0;       // first and last byte of the range
  uint64_t end = 0;
};

enum class FaultCause : uint8_t {
  kNone,
  kOutOfRange,  // outside of the apertures
  kBadTable,    // a table is outside of memory, or the configuration is not one of GFX9's
  kNotPresent,  // no valid entry
  kNotReadable,
  kNotWritable,
  kNotExecutable,
  kForbidden,  // an entry by which the driver ends the retries of an access
  kNoMemory,   // a valid entry that points to no memory
};

// The entry is valid but does not permit the access.
constexpr bool is_permission(FaultCause cause) {
  return cause == FaultCause::kNotReadable || cause == FaultCause::kNotWritable ||
         cause == FaultCause::kNotExecutable || cause == FaultCause::kForbidden;
}

// A physically contiguous run at the start of the requested range.
struct PhysicalRun {
  FaultCause cause = FaultCause::kNone;
  bool unbacked = false;    // PRT: reads give 0, writes are dropped
  bool executable = false;  // waves may fetch instructions from it
  PhysicalAddress physical = {};
  uint64_t size = 0;  // 1 .. the size asked for
};

// Reads tables through PhysicalMemory only, at most one table a level: hostile tables, also loops,
// end in a fault.
class PageWalker {
 public:
  explicit PageWalker(PhysicalMemory& memory) : memory_(memory) {}

  PhysicalRun walk(const AddressSpace& space, uint64_t address, uint64_t size, bool for_write);

 private:
  struct Entries;  // a table's entries from one index on

  PhysicalRun leaf(const Entries& entries, unsigned shift, uint64_t address, uint64_t size,
                   bool for_write);
  PhysicalRun flat(const AddressSpace& space, uint64_t address, uint64_t size, bool for_write);
  PhysicalRun tree(const AddressSpace& space, uint64_t address, uint64_t size, bool for_write);

  PhysicalMemory& memory_;
};

}  // namespace gpu
