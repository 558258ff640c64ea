// SPDX-License-Identifier: GPL-2.0
// std::format, compiled once. In a header it is compiled anew by every file that uses it, which
// takes more than two seconds each time.
#pragma once

#include <format>
#include <string>
#include <string_view>

namespace base {

std::string vformat(std::string_view text, std::format_args args);

// Call both with "base::": without, arguments of namespace std would find the others as well.
template <typename... Args>
std::string format(std::format_string<Args...> text, Args&&... args) {
  return base::vformat(text.get(), std::make_format_args(args...));
}

}  // namespace base
