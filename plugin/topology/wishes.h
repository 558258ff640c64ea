// SPDX-License-Identifier: GPL-2.0
// The user's map of GPUs: which GPU of this machine replaces a GPU of the images.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace amdgpu_criu::topology {

// One SOURCE=TARGET of the user's map. Either side is a gpu_id ("0x1a2b" or decimal), a PCI
// address ("0000:03:00.0"), a render node ("renderD128"), a UUID as ROCm prints it
// ("GPU-1234567890abcdef"), or a place in the order of render nodes ("#0").
struct Wish {
  std::string source;
  std::string target;
};

// Parses "SOURCE=TARGET,SOURCE=TARGET". Returns no wishes for an empty text.
Result<std::vector<Wish>> parse_map(std::string_view text);

// Place of the GPU with that name; an error says that it is not `where`.
Result<size_t> find_called(std::span<const Gpu> gpus, const std::string& name, const char* where);

}  // namespace amdgpu_criu::topology
