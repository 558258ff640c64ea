// SPDX-License-Identifier: GPL-2.0
#include "engines/atomics.h"

#include <algorithm>
#include <atomic>
#include <optional>

namespace gpu {
namespace {

// Operation numbers without the width (bit 5) and no-return (bit 6) bits.
template <typename T>
std::optional<T> apply(uint32_t operation, T old, T source, T compare) {
  using Signed = std::make_signed_t<T>;
  const auto less = static_cast<Signed>(source) < static_cast<Signed>(old);
  switch (operation) {
    case 0x07:
      return source;
    case 0x08:
      return old == compare ? source : old;
    case 0x0f:
      return old + source;
    case 0x10:
      return old - source;
    case 0x11:
      return less ? source : old;
    case 0x12:
      return std::min(old, source);
    case 0x13:
      return less ? old : source;
    case 0x14:
      return std::max(old, source);
    case 0x15:
      return old & source;
    case 0x16:
      return old | source;
    case 0x17:
      return old ^ source;
    case 0x18:
      return old >= source ? 0 : old + 1;
    case 0x19:
      return old == 0 || old > source ? source : old - 1;
    default:
      return std::nullopt;
  }
}

template <typename T>
amdgpu_criu::Result<uint64_t> run(Memory& memory, Space space, uint64_t address, uint32_t operation,
                                  const AtomicOperands& operands) {
  if (address % sizeof(T))
    return amdgpu_criu::Error::of(EINVAL, "atomic at unaligned {:#x}", address);
  const Memory::Hold hold = memory.hold();
  std::byte* cell = TRY(memory.cell(space, address, sizeof(T)));
  std::atomic_ref<T> value(*reinterpret_cast<T*>(cell));
  T old = value.load();
  for (;;) {
    const auto next = apply<T>(operation & 0x1f, old, static_cast<T>(operands.source),
                               static_cast<T>(operands.compare));
    if (!next)
      return amdgpu_criu::Error::of(EINVAL, "atomic operation {:#x} is not modelled", operation);
    if (value.compare_exchange_weak(old, *next)) return old;
  }
}

}  // namespace

amdgpu_criu::Result<uint64_t> atomic(Memory& memory, Space space, uint64_t address,
                                     uint32_t operation, const AtomicOperands& operands) {
  return atomic_is_64(operation) ? run<uint64_t>(memory, space, address, operation, operands)
                                 : run<uint32_t>(memory, space, address, operation, operands);
}

}  // namespace gpu
