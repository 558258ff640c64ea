// SPDX-License-Identifier: GPL-2.0
// Just enough JSON to print.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace amdgpu_criu::tool {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order of printing

  Json(bool value) : value_(value) {}                             // NOLINT: implicit
  Json(uint64_t value) : value_(value) {}                         // NOLINT: implicit
  Json(double value) : value_(value) {}                           // NOLINT: implicit
  Json(uint32_t value) : value_(static_cast<uint64_t>(value)) {}  // NOLINT: implicit
  Json(std::string value) : value_(std::move(value)) {}           // NOLINT: implicit
  Json(const char* value) : value_(std::string(value)) {}         // NOLINT: implicit
  Json(Array value) : value_(std::move(value)) {}                 // NOLINT: implicit
  Json(Object value) : value_(std::move(value)) {}                // NOLINT: implicit

  std::string text(int indent = 0) const;

 private:
  std::variant<bool, uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace amdgpu_criu::tool
