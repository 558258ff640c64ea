// SPDX-License-Identifier: GPL-2.0
// std::format, compiled once. In a header it is compiled anew by every file that uses it, which
// takes more than two seconds each time.
#pragma once

#include <format>
#include <string>
#include <string_view>

namespace amdgpu_criu {

std::string formatted_from(std::string_view text, std::format_args args);

// The name differs from std::format, which arguments of namespace std would find as well.
template <typename... Args>
std::string formatted(std::format_string<Args...> text, Args&&... args) {
  return formatted_from(text.get(), std::make_format_args(args...));
}

}  // namespace amdgpu_criu
