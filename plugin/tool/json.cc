// SPDX-License-Identifier: GPL-2.0
#include "tool/json.h"
#include "base/format.h"

namespace amdgpu_criu::tool {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += formatted("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      result += formatted("\\u{:04x}", static_cast<unsigned>(c));
    else
      result += c;
  }
  return result + "\"";
}

struct Printer {
  int indent;

  std::string line(int depth) const {
    return "\n" + std::string(static_cast<size_t>(depth) * 2, ' ');
  }

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(uint64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return formatted("{:.6g}", value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const Json::Array& values) const {
    std::string result;
    for (const Json& value : values)
      result += (result.empty() ? "" : ",") + line(indent + 1) + value.text(indent + 1);
    return result.empty() ? "[]" : "[" + result + line(indent) + "]";
  }
  std::string operator()(const Json::Object& members) const {
    std::string result;
    for (const auto& [name, value] : members)
      result += (result.empty() ? "" : ",") + line(indent + 1) + quoted(name) + ": " +
                value.text(indent + 1);
    return result.empty() ? "{}" : "{" + result + line(indent) + "}";
  }
};

}  // namespace

std::string Json::text(int indent) const { return std::visit(Printer{indent}, value_); }

}  // namespace amdgpu_criu::tool
