// SPDX-License-Identifier: GPL-2.0
#include "tool/bench_series.h"

#include <algorithm>

#include "base/format.h"

namespace amdgpu_criu::tool {

double Series::median() const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::ranges::sort(sorted);
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double Series::least() const { return values_.empty() ? 0 : std::ranges::min(values_); }
double Series::most() const { return values_.empty() ? 0 : std::ranges::max(values_); }

std::string Series::text(const char* unit) const {
  const int digits = median() < 10 ? 2 : 0;
  return formatted("{:.{}f} {} ({:.{}f} to {:.{}f})", median(), digits, unit, least(), digits,
                   most(), digits);
}

Json Series::json() const {
  return Json::Object{{"median", median()}, {"least", least()}, {"most", most()}};
}

}  // namespace amdgpu_criu::tool
