// SPDX-License-Identifier: GPL-2.0
// Words of a shell command.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace amdgpu_criu {

// The word as a shell reads it back, in quotes only if it needs them.
inline std::string quoted_for_shell(const std::string& word) {
  constexpr std::string_view kPlain = "-_./:=,+@%";
  const auto is_plain = [&](unsigned char c) {
    return isalnum(c) || kPlain.find(static_cast<char>(c)) != kPlain.npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace amdgpu_criu
