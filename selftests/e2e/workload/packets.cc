// SPDX-License-Identifier: GPL-2.0
#include "workload/packets.h"

#include <algorithm>

namespace e2e {
namespace {

constexpr uint32_t lo(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t hi(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// PM4 type 3 opcodes.
constexpr uint32_t kNop = 0x10;
constexpr uint32_t kAtomicMem = 0x1e;
constexpr uint32_t kWriteData = 0x37;
constexpr uint32_t kWaitRegMem = 0x3c;
constexpr uint32_t kCopyData = 0x40;
constexpr uint32_t kReleaseMem = 0x49;
constexpr uint32_t kDmaData = 0x50;
// A NOP of one dword has a special count.
constexpr uint32_t kSingleNop = 0xffff1000;

constexpr uint32_t kAtomicAdd64 = 0x2f;  // TC_OP_ATOMIC_ADD_RTN_64, PM4 and SDMA
constexpr uint32_t kWriteConfirm = 1 << 20;
constexpr uint32_t kToMemory = 5 << 8;

constexpr uint32_t kSdmaCopy = 1;
constexpr uint32_t kSdmaFence = 5;
constexpr uint32_t kSdmaTrap = 6;
constexpr uint32_t kSdmaPollRegmem = 8;
constexpr uint32_t kSdmaAtomic = 10;

constexpr uint16_t kAqlBarrierAnd = 3;
constexpr uint16_t kAqlInOrder = 1 << 8;
constexpr uint16_t kAqlSystemScopes = 2 << 9 | 2 << 11;  // acquire and release

}  // namespace

void Pm4Stream::put(uint32_t opcode, std::initializer_list<uint32_t> body) {
  dwords_.push_back(3u << 30 | static_cast<uint32_t>(body.size() - 1) << 16 | opcode << 8);
  dwords_.insert(dwords_.end(), body);
}

Pm4Stream& Pm4Stream::wait(uint64_t address, Compare compare, uint32_t reference) {
  constexpr uint32_t kMemorySpace = 1 << 4, kPollInterval = 4;
  put(kWaitRegMem, {static_cast<uint32_t>(compare) | kMemorySpace, lo(address), hi(address),
                    reference, 0xffffffff, kPollInterval});
  return *this;
}

Pm4Stream& Pm4Stream::copy64(uint64_t to, uint64_t from) {
  constexpr uint32_t kFromMemory = 1, kCount64 = 1 << 16;
  put(kCopyData,
      {kFromMemory | kToMemory | kCount64 | kWriteConfirm, lo(from), hi(from), lo(to), hi(to)});
  return *this;
}

Pm4Stream& Pm4Stream::add64(uint64_t address, uint64_t addend) {
  put(kAtomicMem, {kAtomicAdd64, lo(address), hi(address), lo(addend), hi(addend), 0, 0, 0});
  return *this;
}

Pm4Stream& Pm4Stream::write64(uint64_t address, uint64_t value) {
  put(kWriteData, {kToMemory | kWriteConfirm, lo(address), hi(address), lo(value), hi(value)});
  return *this;
}

Pm4Stream& Pm4Stream::dma(uint64_t to, uint64_t from, uint32_t bytes) {
  constexpr uint32_t kFromMemory = 0u << 29, kToMemoryDma = 0u << 20, kSync = 1u << 31;
  put(kDmaData, {kFromMemory | kToMemoryDma | kSync, lo(from), hi(from), lo(to), hi(to), bytes});
  return *this;
}

void Pm4Stream::release_mem(uint64_t address, uint32_t value, uint32_t interrupt,
                            uint32_t context_id) {
  // CACHE_FLUSH_AND_INV_TS_EVENT with write-back and invalidation of L2 and L1.
  constexpr uint32_t kEvent = 0x14 | 5 << 8 | 1 << 15 | 1 << 16 | 1 << 17;
  constexpr uint32_t kData32 = 1u << 29;
  put(kReleaseMem,
      {kEvent, kData32 | interrupt << 24, lo(address), hi(address), value, 0, context_id});
}

Pm4Stream& Pm4Stream::release(uint64_t address, uint32_t value) {
  release_mem(address, value, 0, 0);
  return *this;
}

Pm4Stream& Pm4Stream::release_and_interrupt(uint64_t address, uint32_t value, uint32_t context_id) {
  constexpr uint32_t kAfterWriteConfirm = 2;
  release_mem(address, value, kAfterWriteConfirm, context_id);
  return *this;
}

Pm4Stream& Pm4Stream::pad(size_t size) {
  if (dwords_.size() + 1 == size) dwords_.push_back(kSingleNop);
  if (dwords_.size() >= size) return *this;
  const size_t count = size - dwords_.size();
  dwords_.push_back(3u << 30 | static_cast<uint32_t>(count - 2) << 16 | kNop << 8);
  dwords_.resize(size, 0);
  return *this;
}

SdmaStream& SdmaStream::poll(uint64_t address, Compare compare, uint32_t reference) {
  constexpr uint32_t kMemory = 1u << 31, kForever = 0xfffu << 16, kInterval = 10;
  dwords_.insert(dwords_.end(),
                 {kSdmaPollRegmem | static_cast<uint32_t>(compare) << 28 | kMemory, lo(address),
                  hi(address), reference, 0xffffffff, kForever | kInterval});
  return *this;
}

SdmaStream& SdmaStream::copy(uint64_t to, uint64_t from, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t part = std::min(bytes - done, kMaxCopy);
    dwords_.insert(dwords_.end(), {kSdmaCopy, lo(part - 1), 0, lo(from + done), hi(from + done),
                                   lo(to + done), hi(to + done)});
    done += part;
  }
  return *this;
}

SdmaStream& SdmaStream::add64(uint64_t address, uint64_t addend) {
  dwords_.insert(dwords_.end(), {kSdmaAtomic | kAtomicAdd64 << 25, lo(address), hi(address),
                                 lo(addend), hi(addend), 0, 0, 0});
  return *this;
}

SdmaStream& SdmaStream::fence(uint64_t address, uint32_t value) {
  dwords_.insert(dwords_.end(), {kSdmaFence, lo(address), hi(address), value});
  return *this;
}

SdmaStream& SdmaStream::trap(uint32_t context_id) {
  dwords_.insert(dwords_.end(), {kSdmaTrap, context_id});
  return *this;
}

SdmaStream& SdmaStream::pad(size_t size) {
  if (dwords_.size() < size) dwords_.resize(size, 0);  // NOP is opcode 0
  return *this;
}

AqlBarrierPacket barrier_and(uint64_t dependency, uint64_t completion_signal) {
  AqlBarrierPacket packet = {};
  packet.header = kAqlBarrierAnd | kAqlInOrder | kAqlSystemScopes;
  packet.dependencies[0] = dependency;
  packet.completion_signal = completion_signal;
  return packet;
}

}  // namespace e2e
