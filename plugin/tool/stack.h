// SPDX-License-Identifier: GPL-2.0
// What of a machine's driver stack decides whether images of another one can be restored there.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernel/kernel_api.h"
#include "topology/topology.h"

namespace amdgpu_criu::tool {

// Letters, digits and ":-" only.
inline constexpr size_t kMaxStackId = 64;

// The same on machines that restore each other's images: of the kernel's interface (nullopt: the
// stock one, of this kernel release), the image format, and kinds and firmware of the GPUs,
// whatever their number and order.
std::string stack_id(const std::optional<kernel::Query>& kernel, const std::string& release,
                     std::span<const topology::Gpu> gpus);

}  // namespace amdgpu_criu::tool
