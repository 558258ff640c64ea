// SPDX-License-Identifier: GPL-2.0
// Identifies the properties of a machine's driver stack that a restore of another machine's images
// depends on.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernel/kernel_api.h"
#include "topology/topology.h"

namespace amdgpu_criu::tool {

// Letters, digits and ":-" only.
inline constexpr size_t kMaxStackId = 64;

// The same on machines that can restore each other's images. Consists of the kernel's interface
// (nullopt: the stock one, of this kernel release), the image format, and the GPUs' properties that
// a restore compares if the user ignores none, regardless of the number and order of the GPUs.
std::string stack_id(const std::optional<kernel::Query>& kernel, const std::string& release,
                     std::span<const topology::Gpu> gpus);
Result<std::string> stack_id_of_machine();

}  // namespace amdgpu_criu::tool
