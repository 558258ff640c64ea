// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu options`: a configuration file with all options, and with what is set here.
#include "options/options.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tool/commands.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {

int list_options(Format format) {
  const auto set = options::parse({});
  if (!set.ok()) return complain(2, set.error().message());
  Json array = Json::array();
  for (const options::Option& option : options::all_options()) {
    const auto given = set->given.find(option.name);
    const std::string value = given == set->given.end() ? option.preset : given->second;
    array.push_back(Json{{"name", option.name},
                         {"values", option.values},
                         {"default", option.preset},
                         {"value", value},
                         {"help", option.help}});
    if (format == Format::kText)
      printf("# %s (%s)\n%s%s = %s\n", option.help, option.values,
             given == set->given.end() ? "# " : "", option.name, value.c_str());
  }
  if (format == Format::kJson) print_json({{"options", std::move(array)}});
  return 0;
}

}  // namespace amdgpu_criu::tool
