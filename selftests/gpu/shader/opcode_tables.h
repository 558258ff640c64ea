// SPDX-License-Identifier: GPL-2.0
// Tables of mnemonics, one for each format.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shader/opcodes.h"

namespace gpu::shader {

using Names = std::vector<std::string>;
using Tables = std::array<Names, size_t(Format::kCount)>;

inline Tables empty_tables() {
  Tables tables;
  for (Names& names : tables) names.resize(kMaxOpcodes);
  return tables;
}

// Adds runs of consecutive opcodes, each after the number of its first: "12: one two". "-" removes.
inline void add_runs(Names& names, std::span<const std::string_view> runs,
                     std::string_view prefix = "", size_t first = 0) {
  for (std::string_view run : runs) {
    const size_t colon = run.find(':');
    size_t opcode = 0;
    for (const char digit : run.substr(0, colon)) opcode = opcode * 10 + size_t(digit - '0');
    opcode += first;
    run.remove_prefix(colon + 1);
    while (!run.empty()) {
      run.remove_prefix(1);
      const std::string_view name = run.substr(0, run.find(' '));
      names[opcode++] = name == "-" ? "" : std::string(prefix).append(name);
      run.remove_prefix(name.size());
    }
  }
}

// Adds runs of opcodes of a format.
inline auto adder(Tables& tables) {
  return
      [&tables](Format format, std::span<const std::string_view> runs, std::string_view prefix = "",
                size_t first = 0) { add_runs(tables[size_t(format)], runs, prefix, first); };
}

// VOP3 has the opcodes of the short formats, from first on, but those that exist only there.
inline void add_promoted(Names& vop3, const Names& from, unsigned first, unsigned count,
                         std::span<const std::string_view> not_promoted) {
  for (unsigned opcode = 0; opcode < count; ++opcode) {
    bool promoted = true;
    for (const std::string_view name : not_promoted) promoted &= from[opcode] != name;
    if (promoted) vop3[first + opcode] = from[opcode];
  }
}

Tables gfx11_tables();

}  // namespace gpu::shader
