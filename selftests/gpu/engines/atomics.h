// SPDX-License-Identifier: GPL-2.0
// The atomic operations that SDMA and the command processor share (TC_OP_ATOMIC_*).
#pragma once

#include <cstdint>

#include "core/interfaces.h"

namespace gpu {

struct AtomicOperands {
  uint64_t source = 0;
  uint64_t compare = 0;
};

// Applies the operation atomically also against the guest's CPUs; returns the value before it.
// EINVAL for an operation that does not exist (floating point ones are not modelled).
amdgpu_criu::Result<uint64_t> atomic(Memory& memory, Space space, uint64_t address,
                                     uint32_t operation, const AtomicOperands& operands);

constexpr bool atomic_is_64(uint32_t operation) { return operation & 0x20; }
constexpr bool atomic_is_compare_swap(uint32_t operation) { return (operation & 0x1f) == 0x08; }

// Compares a polled value: the function codes of WAIT_REG_MEM and POLL_REGMEM.
template <typename T>
constexpr bool poll_matches(unsigned function, T value, T reference) {
  switch (function) {
    case 1:
      return value < reference;
    case 2:
      return value <= reference;
    case 3:
      return value == reference;
    case 4:
      return value != reference;
    case 5:
      return value >= reference;
    case 6:
      return value > reference;
    default:
      return true;
  }
}

}  // namespace gpu
