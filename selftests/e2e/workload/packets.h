// SPDX-License-Identifier: GPL-2.0
// Packets of GFX9 queues: PM4 (soc15d.h), SDMA 4.x (vega10_sdma_pkt_open.h), AQL (HSA 1.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace e2e {

using Dwords = std::vector<uint32_t>;

// Compare functions, the same numbers in WAIT_REG_MEM and POLL_REGMEM.
enum class Compare : uint32_t { kEqual = 3, kGreaterOrEqual = 5 };

class Pm4Stream {
 public:
  // Waits until the 32-bit cell compares with the reference.
  Pm4Stream& wait(uint64_t address, Compare compare, uint32_t reference);
  Pm4Stream& copy64(uint64_t to, uint64_t from);
  Pm4Stream& add64(uint64_t address, uint64_t addend);
  Pm4Stream& write64(uint64_t address, uint64_t value);
  // The CP's own copy engine: memory to memory, less than 64 MiB.
  Pm4Stream& dma(uint64_t to, uint64_t from, uint32_t bytes);
  // Writes 32 bits when all packets before are complete.
  Pm4Stream& release(uint64_t address, uint32_t value);
  // The same, and then an interrupt with this context id.
  Pm4Stream& release_and_interrupt(uint64_t address, uint32_t value, uint32_t context_id);
  // NOPs up to a total of size dwords.
  Pm4Stream& pad(size_t size);
  const Dwords& dwords() const { return dwords_; }

 private:
  void release_mem(uint64_t address, uint32_t value, uint32_t interrupt, uint32_t context_id);
  void put(uint32_t opcode, std::initializer_list<uint32_t> body);
  Dwords dwords_;
};

class SdmaStream {
 public:
  SdmaStream& poll(uint64_t address, Compare compare, uint32_t reference);
  // In packets of at most kMaxCopy bytes.
  SdmaStream& copy(uint64_t to, uint64_t from, uint64_t bytes);
  SdmaStream& add64(uint64_t address, uint64_t addend);
  SdmaStream& fence(uint64_t address, uint32_t value);
  SdmaStream& trap(uint32_t context_id);
  SdmaStream& pad(size_t size);
  const Dwords& dwords() const { return dwords_; }

  // The count field of SDMA 4.0 has 22 bits and holds bytes - 1.
  static constexpr uint64_t kMaxCopy = 2 << 20;

 private:
  Dwords dwords_;
};

struct AqlBarrierPacket {
  uint16_t header;
  uint16_t reserved0;
  uint32_t reserved1;
  uint64_t dependencies[5];
  uint64_t reserved2;
  uint64_t completion_signal;
};
static_assert(sizeof(AqlBarrierPacket) == 64);

// Barrier-AND: when every dependency that is not 0 has value 0, decrements the completion signal.
AqlBarrierPacket barrier_and(uint64_t dependency, uint64_t completion_signal);
constexpr uint16_t kAqlInvalidHeader = 1;

// Layout of amd_signal_t (amd_hsa_signal.h) as the packet processor uses it.
struct AqlSignal {
  int64_t kind;  // 1: user
  int64_t value;
  uint64_t event_mailbox;
  uint32_t event_id;
  uint32_t reserved[9];
};
static_assert(sizeof(AqlSignal) == 64 && offsetof(AqlSignal, event_mailbox) == 16);
constexpr int64_t kUserSignal = 1;

}  // namespace e2e
