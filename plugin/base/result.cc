// SPDX-License-Identifier: GPL-2.0
#include "base/result.h"

namespace amdgpu_criu {

std::string formatted_from(std::string_view text, std::format_args args) {
  return std::vformat(text, args);
}

}  // namespace amdgpu_criu
