// SPDX-License-Identifier: GPL-2.0
// Chooses, for every GPU of the dumped machine that was in use, a GPU of this one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/topology.h"

namespace topology {

// Source gpu_id to target gpu_id.
using Assignment = std::map<uint32_t, uint32_t>;

// One SOURCE=TARGET of the user's map. Either side is a gpu_id ("0x1a2b" or decimal), a PCI
// address ("0000:03:00.0") or a render node ("renderD128").
struct Wish {
  std::string source;
  std::string target;
};

// Parses "SOURCE=TARGET,SOURCE=TARGET"; empty text is no wish.
Result<std::vector<Wish>> parse_map(std::string_view text);

// Empty if work of `source` can go on on `target`, else the property and both values.
std::string mismatch(const Gpu& source, const Gpu& target);

// A pure function. GPUs of one XGMI hive stay in one hive. Sources prefer the target with their
// own gpu_id, then their PCI address. Spare targets are left alone. An error names what did not
// fit.
Result<Assignment> plan(std::span<const Gpu> sources, std::span<const Gpu> targets,
                        std::span<const Wish> wishes = {});

}  // namespace topology
