// SPDX-License-Identifier: GPL-2.0
// What a mapping of a GPU node maps, and at which offset it is found after restore.
#pragma once

#include "image/records.h"
#include "topology/planner.h"

namespace image {

// The BO that the mapping shows (a part of), or nullptr.
const kernel::Bo* find_bo(const Process& process, const Vma& vma);

// Refuses a mapping that restore would not know how to make again.
Status check_mapping(const Process& process, const Vma& vma);

// process.bos as RESTORE left them; targets: source gpu_id to target gpu_id, both actual.
Result<uint64_t> restored_offset(const Process& process, const Vma& vma,
                                 const topology::Assignment& targets);

}  // namespace image
