// SPDX-License-Identifier: GPL-2.0
// The arithmetic of the chain. Step n adds two numbers that depend on n to one 64-bit cell: SDMA
// adds the first, the PM4 queue the second. A step that is lost, repeated or stale changes the
// value, and the value after any step is known without its history.
#pragma once

#include <cstdint>

namespace e2e {

constexpr uint64_t kStartValue = 0x0123456789abcdef;
constexpr uint64_t kSdmaFactor = 0xd1342543de82ef95;
constexpr uint64_t kSdmaOffset = 0xaf251af3b0f025b5;
constexpr uint64_t kPm4Factor = 0x2545f4914f6cdd1d;
constexpr uint64_t kPm4Offset = 0x9fb21c651e98df25;

constexpr uint64_t sdma_addend(uint64_t step) { return kSdmaFactor * step + kSdmaOffset; }
constexpr uint64_t pm4_addend(uint64_t step) { return kPm4Factor * step + kPm4Offset; }

// After all of step n; value_at(0) is the initial value.
constexpr uint64_t value_at(uint64_t step) {
  const uint64_t triangle = step % 2 ? step * ((step + 1) / 2) : (step / 2) * (step + 1);
  return kStartValue + (kSdmaFactor + kPm4Factor) * triangle + (kSdmaOffset + kPm4Offset) * step;
}

// After the SDMA half of step n.
constexpr uint64_t half_value_at(uint64_t step) { return value_at(step - 1) + sdma_addend(step); }

// A ring of the latest `slots` values; slot i holds that of the latest step that is i modulo slots.
// Returns that step, or 0 if the slot was not written yet.
constexpr uint64_t latest_step_in_slot(uint64_t slot, uint64_t slots, uint64_t last_step) {
  const uint64_t back = (last_step % slots + slots - slot) % slots;
  return back < last_step ? last_step - back : 0;
}

}  // namespace e2e
