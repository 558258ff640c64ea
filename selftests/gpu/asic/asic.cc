// SPDX-License-Identifier: GPL-2.0
#include "asic/asic.h"

#include <algorithm>

namespace gpu {

const std::vector<const Asic*>& all_asics() {
  static const std::vector<const Asic*> kAll = {&mi210(),     &mi210_wide(),   &mi210_4_3(),
                                                &mi210_3_4(), &mi300x_small(), &mi300x_halves(),
                                                &mi300x(),    &navi31()};
  return kAll;
}

const Asic* find_asic(std::string_view name) {
  const auto found = std::ranges::find(all_asics(), name, &Asic::name);
  return found == all_asics().end() ? nullptr : *found;
}

}  // namespace gpu
