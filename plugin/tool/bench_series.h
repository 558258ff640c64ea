// SPDX-License-Identifier: GPL-2.0
// The same thing measured several times.
#pragma once

#include <string>
#include <vector>

#include "tool/json.h"

namespace amdgpu_criu::tool {

class Series {
 public:
  void add(double value) { values_.push_back(value); }
  // 0 of none. The median of an even number of values is between the two in the middle.
  double median() const;
  double least() const;
  double most() const;

  // "1234 MiB/s (1200 to 1250)"
  std::string text(const char* unit) const;
  Json json() const;

 private:
  std::vector<double> values_;
};

}  // namespace amdgpu_criu::tool
