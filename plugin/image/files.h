// SPDX-License-Identifier: GPL-2.0
// Files of an image directory, whoever wrote them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace amdgpu_criu::image {

// Fills `to`; a file that ends before is truncated. Errors name the file.
Status read_at(const Fd& file, const std::string& name, uint64_t offset, std::span<std::byte> to);

// The names in the directory that are wanted, in order.
Result<std::vector<std::string>> list_names(int directory,
                                            const std::function<bool(std::string_view)>& wanted);

}  // namespace amdgpu_criu::image
