// SPDX-License-Identifier: GPL-2.0
#include "mem/page_walker.h"

#include <algorithm>
#include <array>

namespace gpu {
namespace {

constexpr unsigned kPageShift = 12;
constexpr uint64_t kTableEntries = 512;
constexpr uint64_t kAddressLimit = 1ull << 48;

// PDB2, PDB1, PDB0, PTB.
constexpr std::array<unsigned, 4> kShifts = {39, 30, 21, 12};
constexpr size_t kPdb0 = 2;
constexpr size_t kPtb = 3;

bool translates_further(const AddressSpace& space) {
  return space.depth == 2 && space.block_size == 9;
}

bool is_supported(const AddressSpace& space) {
  return translates_further(space) || (space.depth == 3 && space.block_size == 0);
}

PhysicalRun fault(FaultCause cause) { return {.cause = cause}; }

bool is_leaf(const AddressSpace& space, size_t level, uint64_t entry) {
  if (level == kPtb) return true;
  if (level == kPdb0 && translates_further(space)) return !(entry & pte::kTranslateFurther);
  return entry & pte::kPdeAsPte;
}

FaultCause check(uint64_t entry, bool for_write) {
  if (!(entry & pte::kValid))
    return entry & pte::kPrt ? FaultCause::kNone : FaultCause::kNotPresent;
  // AMDGPU_VM_NORETRY_FLAGS_TF, without a permission.
  constexpr uint64_t kRights = pte::kRead | pte::kWrite, kMark = pte::kSystem | pte::kPrt;
  if ((entry & (kMark | kRights)) == kMark) return FaultCause::kForbidden;
  if (for_write && !(entry & pte::kWrite)) return FaultCause::kNotWritable;
  if (!for_write && !(entry & pte::kRead)) return FaultCause::kNotReadable;
  return FaultCause::kNone;
}

// True if two neighbouring pages form one run.
bool continues(uint64_t entry, uint64_t next, uint64_t page_size, bool unbacked) {
  constexpr uint64_t kSame = pte::kValid | pte::kSystem | pte::kExecute | pte::kRead | pte::kWrite;
  if ((entry & kSame) != (next & kSame)) return false;
  if (unbacked) return next & pte::kPrt;
  return (next & pte::kPageMask) == (entry & pte::kPageMask) + page_size;
}

}  // namespace

// Entries are read one by one in single accesses: the guest may change them at any time.
struct PageWalker::Entries {
  std::span<std::byte> bytes;

  static Entries at(PhysicalMemory& memory, PhysicalAddress table, uint64_t index, uint64_t count) {
    const PhysicalAddress from{table.system, table.address + index * sizeof(uint64_t)};
    return {memory.find(from, count * sizeof(uint64_t), false)};
  }
  bool has(uint64_t index) const { return (index + 1) * sizeof(uint64_t) <= bytes.size(); }
  uint64_t get(uint64_t index) const {
    auto* cell = reinterpret_cast<uint64_t*>(bytes.data()) + index;
    return std::atomic_ref(*cell).load(std::memory_order_relaxed);
  }
};

PhysicalRun PageWalker::walk(const AddressSpace& space, uint64_t address, uint64_t size,
                             bool for_write) {
  if (!space.enabled || size == 0) return fault(FaultCause::kNotPresent);
  if (address < space.start || address > space.end || address >= kAddressLimit)
    return fault(FaultCause::kOutOfRange);
  size = std::min({size, space.end - address + 1, kAddressLimit - address});
  const auto held = memory_.hold();
  return space.depth == 0 ? flat(space, address, size, for_write)
                          : tree(space, address, size, for_write);
}

PhysicalRun PageWalker::flat(const AddressSpace& space, uint64_t address, uint64_t size,
                             bool for_write) {
  if (!(space.base & pte::kValid)) return fault(FaultCause::kBadTable);
  const PhysicalAddress table{(space.base & pte::kSystem) != 0, space.base & pte::kTableMask};
  const uint64_t index = (address - space.start) >> kPageShift;
  const auto entries = Entries::at(memory_, table, index, kTableEntries);
  return leaf(entries, kPageShift, address, size, for_write);
}

PhysicalRun PageWalker::tree(const AddressSpace& space, uint64_t address, uint64_t size,
                             bool for_write) {
  if (!is_supported(space)) return fault(FaultCause::kBadTable);
  uint64_t table = space.base;
  for (size_t level = 0; level < kShifts.size(); ++level) {
    if (!(table & pte::kValid)) return fault(FaultCause::kNotPresent);
    const uint64_t index = (address >> kShifts[level]) % kTableEntries;
    const auto entries =
        Entries::at(memory_, {(table & pte::kSystem) != 0, table & pte::kTableMask}, index,
                    kTableEntries - index);
    if (!entries.has(0)) return fault(FaultCause::kBadTable);
    table = entries.get(0);
    if (!(table & pte::kValid) || is_leaf(space, level, table))
      return leaf(entries, kShifts[level], address, size, for_write);
  }
  return fault(FaultCause::kBadTable);
}

PhysicalRun PageWalker::leaf(const Entries& entries, unsigned shift, uint64_t address,
                             uint64_t size, bool for_write) {
  if (!entries.has(0)) return fault(FaultCause::kBadTable);
  uint64_t entry = entries.get(0);
  if (const auto cause = check(entry, for_write); cause != FaultCause::kNone) return fault(cause);

  const uint64_t page = 1ull << shift;
  const uint64_t offset = address & (page - 1);
  PhysicalRun run{.unbacked = !(entry & pte::kValid),
                  .executable = (entry & pte::kExecute) != 0,
                  .physical = {(entry & pte::kSystem) != 0, (entry & pte::kPageMask) + offset},
                  .size = page - offset};
  // Only 4 KiB pages are joined: larger ones are long enough.
  for (uint64_t i = 1; shift == kPageShift && run.size < size && entries.has(i); ++i) {
    const uint64_t next = entries.get(i);
    if (!continues(entry, next, page, run.unbacked)) break;
    run.size += page;
    entry = next;
  }
  run.size = std::min(run.size, size);
  return run;
}

}  // namespace gpu
