// SPDX-License-Identifier: GPL-2.0
#include "mem/tlb.h"

namespace gpu {

std::optional<PhysicalRun> Tlb::find(uint64_t page, bool for_write) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_[index(page, for_write)];
  if (entry.epoch != epoch_ || entry.page != page || entry.for_write != for_write)
    return std::nullopt;
  return entry.run;
}

void Tlb::insert(uint64_t page, bool for_write, const PhysicalRun& run, uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  entries_[index(page, for_write)] = {epoch, page, for_write, run};
}

}  // namespace gpu
