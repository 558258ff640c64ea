// SPDX-License-Identifier: GPL-2.0
// The memory of a VMID as waves see it, with the translations of one turn cached.
#pragma once

#include <array>
#include <cstring>

#include "core/interfaces.h"

namespace gpu::shader {

// A translation is used until the end of the turn in which it was looked up, also when the driver
// invalidates it meanwhile; the Hold keeps the host memory behind it mapped so long.
class MemoryView {
 public:
  static constexpr uint64_t kPageSize = 4096;

  MemoryView(Memory& memory, Space space) : memory_(memory), space_(space) {}

  void begin_turn();
  void end_turn();

  // Null when the address does not translate; Memory has reported the fault then, unless no GPU
  // has such an address. The rest of the page is valid with it.
  std::byte* page(uint64_t address, bool for_write);
  // The same for instructions.
  std::byte* code(uint64_t address);

  bool read(uint64_t address, void* out, size_t size);
  bool write(uint64_t address, const void* data, size_t size);
  // The cell of an atomic operation; null also when it is not aligned.
  std::byte* cell(uint64_t address, size_t size);
  // Instruction fetch: the number of words in the page; only some instructions need more than one.
  // 0: the page cannot be read.
  template <size_t kWords>
  size_t fetch(uint64_t address, std::array<uint32_t, kWords>& words) {
    const std::byte* from = code(address);
    if (!from) return 0;
    const size_t left = (kPageSize - address % kPageSize) / 4;
    if (left >= kWords) {
      std::memcpy(words.data(), from, 4 * kWords);
      return kWords;
    }
    words.fill(0);
    std::memcpy(words.data(), from, 4 * left);
    return left;
  }

  const amdgpu_criu::Error& error() const { return error_; }
  // The last error concerns only the wave: Memory was not accessed.
  bool is_violation() const { return violation_; }
  // The wave repeats the access until the driver has mapped the page.
  bool is_retry() const { return error_.code() == EAGAIN; }

 private:
  static constexpr uint64_t kNoTag = ~uint64_t{0};
  struct Entry {
    uint64_t tag = kNoTag;
    std::byte* host = nullptr;
  };
  enum class Access : uint8_t { kRead, kWrite, kExecute };
  using Cache = std::array<Entry, 256>;

  std::byte* find(Cache& cache, uint64_t address, Access access);
  std::byte* miss(Entry& entry, uint64_t address, Access access);

  Memory& memory_;
  const Space space_;
  Memory::Hold hold_;
  Cache reads_, writes_, codes_;
  amdgpu_criu::Error error_ = amdgpu_criu::Error(EFAULT, "");
  bool violation_ = false;
};

inline std::byte* MemoryView::find(Cache& cache, uint64_t address, Access access) {
  Entry& entry = cache[address / kPageSize % std::tuple_size_v<Cache>];
  if (entry.tag == address / kPageSize) return entry.host + address % kPageSize;
  return miss(entry, address, access);
}

inline std::byte* MemoryView::page(uint64_t address, bool for_write) {
  return for_write ? find(writes_, address, Access::kWrite) : find(reads_, address, Access::kRead);
}

inline std::byte* MemoryView::code(uint64_t address) {
  return find(codes_, address, Access::kExecute);
}

}  // namespace gpu::shader
