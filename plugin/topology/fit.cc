// SPDX-License-Identifier: GPL-2.0
#include "topology/fit.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace amdgpu_criu::topology {
namespace {

enum class Rule { kEqual, kAtLeast };
enum class Binding { kAlways, kMayIgnore };
struct Check {
  const char* property;
  Rule rule;
  Binding binding;
};

// The properties that code compiled for the source, or state saved on it, depends on. A user may
// ignore those that programs rarely depend on, or that only the program's author can judge.
constexpr Check kChecks[] = {
    {"gfx_target_version", Rule::kEqual, Binding::kAlways},
    {"vendor_id", Rule::kEqual, Binding::kAlways},
    {"device_id", Rule::kEqual, Binding::kMayIgnore},
    {"simd_count", Rule::kEqual, Binding::kAlways},
    {"array_count", Rule::kEqual, Binding::kAlways},
    {"simd_arrays_per_engine", Rule::kEqual, Binding::kAlways},
    {"cu_per_simd_array", Rule::kEqual, Binding::kAlways},
    {"simd_per_cu", Rule::kEqual, Binding::kAlways},
    {"max_waves_per_simd", Rule::kEqual, Binding::kAlways},
    {"wave_front_size", Rule::kEqual, Binding::kAlways},
    {"lds_size_in_kb", Rule::kEqual, Binding::kAlways},
    {"gds_size_in_kb", Rule::kEqual, Binding::kAlways},
    {"max_slots_scratch_cu", Rule::kEqual, Binding::kAlways},
    {"num_xcc", Rule::kEqual, Binding::kAlways},
    {"capability", Rule::kEqual, Binding::kMayIgnore},
    {"caches_count", Rule::kAtLeast, Binding::kMayIgnore},
    {"num_gws", Rule::kAtLeast, Binding::kMayIgnore},
    {"num_sdma_engines", Rule::kAtLeast, Binding::kAlways},
    {"num_sdma_xgmi_engines", Rule::kAtLeast, Binding::kAlways},
    {"num_sdma_queues_per_engine", Rule::kAtLeast, Binding::kAlways},
    {"num_cp_queues", Rule::kAtLeast, Binding::kAlways},
    {"fw_version", Rule::kAtLeast, Binding::kMayIgnore},
    {"sdma_fw_version", Rule::kAtLeast, Binding::kMayIgnore},
    {"vram_size", Rule::kAtLeast, Binding::kMayIgnore},
};

constexpr std::array<const char*, 2> kGroups = {"hive_id", "numa_node"};

struct Switch {
  const char* variable;
  const char* property;
};
constexpr Switch kSwitches[] = {
    {"KFD_FW_VER_CHECK", "fw_version"},         {"KFD_SDMA_FW_VER_CHECK", "sdma_fw_version"},
    {"KFD_CACHES_COUNT_CHECK", "caches_count"}, {"KFD_NUM_GWS_CHECK", "num_gws"},
    {"KFD_VRAM_SIZE_CHECK", "vram_size"},       {"KFD_NUMA_CHECK", "numa_node"},
    {"KFD_CAPABILITY_CHECK", "capability"},
};

std::vector<std::string> ignorable() {
  std::vector<std::string> names(kGroups.begin(), kGroups.end());
  names.emplace_back(kLinks);
  for (const Check& check : kChecks)
    if (check.binding == Binding::kMayIgnore) names.emplace_back(check.property);
  std::ranges::sort(names);
  return names;
}

std::string list(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

}  // namespace

Result<Ignored> parse_ignored(std::string_view text) {
  const std::vector<std::string> allowed = ignorable();
  Ignored result;
  while (!text.empty()) {
    const std::string name(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    if (!std::ranges::binary_search(allowed, name))
      return Error::of(EINVAL, "'{}' is not a property that can be ignored; those are: {}", name,
                       list(allowed));
    result.insert(name);
  }
  return result;
}

Ignored ignored_by_environment(const char* (*get)(const char* name)) {
  Ignored result;
  for (const Switch& one : kSwitches) {
    const char* value = get(one.variable);
    if (!value) continue;
    const std::string_view text = value;
    if (text == "0" || text == "NO" || text == "no" || text == "FALSE" || text == "false")
      result.insert(one.property);
  }
  return result;
}

std::string remedy(std::string_view property) {
  const std::vector<std::string> allowed = ignorable();
  if (!std::ranges::binary_search(allowed, property)) return {};
  return formatted("; amdgpu.ignore={} allows it", property);
}

std::string mismatch(const Gpu& source, const Gpu& target, const Ignored& ignored) {
  for (const Check& check : kChecks) {
    // Properties that the images lack cannot be compared.
    if (ignored.contains(check.property) || !source.properties.contains(check.property)) continue;
    const uint64_t had = source.property(check.property);
    const uint64_t has = target.property(check.property);
    if (check.rule == Rule::kEqual && had != has)
      return formatted("{} was {:#x}, is {:#x}{}", check.property, had, has,
                       remedy(check.property));
    if (check.rule == Rule::kAtLeast && had > has)
      return formatted("{} was {:#x}, is only {:#x}{}", check.property, had, has,
                       remedy(check.property));
  }
  return {};
}

bool has_same_cus(const Gpu& source, const Gpu& target) {
  const auto had = source.properties.find(kCuLayout), has = target.properties.find(kCuLayout);
  return had == source.properties.end() || has == target.properties.end() ||
         had->second == has->second;
}

std::vector<std::string> compared_properties() {
  std::vector<std::string> names;
  for (const Check& check : kChecks) names.emplace_back(check.property);
  return names;
}

std::span<const char* const> grouping_properties() { return kGroups; }

std::optional<uint64_t> group_of(const Gpu& gpu, const std::string& property) {
  auto found = gpu.properties.find(property);
  if (found == gpu.properties.end()) return std::nullopt;
  // KFD's value for "in no hive".
  if (property == "hive_id" && found->second == 0) return std::nullopt;
  return found->second;
}

}  // namespace amdgpu_criu::topology
