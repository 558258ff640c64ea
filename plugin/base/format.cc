// SPDX-License-Identifier: GPL-2.0
#include "base/format.h"

namespace base {

std::string vformat(std::string_view text, std::format_args args) {
  return std::vformat(text, args);
}

}  // namespace base
