// SPDX-License-Identifier: GPL-2.0
#include "topology/planner.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace topology {
namespace {

using base::Error;
using base::Status;

enum class Rule { kEqual, kAtLeast };
struct Check {
  const char* property;
  Rule rule;
};

// What code compiled for the source, or state saved on it, depends on.
constexpr Check kChecks[] = {
    {"gfx_target_version", Rule::kEqual},
    {"vendor_id", Rule::kEqual},
    {"device_id", Rule::kEqual},
    {"simd_count", Rule::kEqual},
    {"array_count", Rule::kEqual},
    {"simd_arrays_per_engine", Rule::kEqual},
    {"cu_per_simd_array", Rule::kEqual},
    {"simd_per_cu", Rule::kEqual},
    {"max_waves_per_simd", Rule::kEqual},
    {"wave_front_size", Rule::kEqual},
    {"lds_size_in_kb", Rule::kEqual},
    {"gds_size_in_kb", Rule::kEqual},
    {"num_xcc", Rule::kEqual},
    {"capability", Rule::kEqual},
    {"num_gws", Rule::kAtLeast},
    {"num_sdma_engines", Rule::kAtLeast},
    {"num_sdma_xgmi_engines", Rule::kAtLeast},
    {"num_sdma_queues_per_engine", Rule::kAtLeast},
    {"num_cp_queues", Rule::kAtLeast},
    {"fw_version", Rule::kAtLeast},
    {"sdma_fw_version", Rule::kAtLeast},
    {"vram_size", Rule::kAtLeast},
};

std::optional<uint64_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t value = 0;
  auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_called(const Gpu& gpu, const std::string& name) {
  if (name == gpu.pci_address || name == std::format("renderD{}", gpu.render_minor)) return true;
  auto number = parse_number(name);
  return number && *number == gpu.gpu_id;
}

Result<size_t> find_called(std::span<const Gpu> gpus, const std::string& name, const char* where) {
  auto found = std::ranges::find_if(gpus, [&](const Gpu& gpu) { return is_called(gpu, name); });
  if (found == gpus.end())
    return Error::of(EINVAL, "the GPU map names {}, which is not {}", name, where);
  return static_cast<size_t>(found - gpus.begin());
}

class Search {
 public:
  Search(std::span<const Gpu> sources, std::span<const Gpu> targets)
      : sources_(sources),
        targets_(targets),
        wished_(sources.size()),
        chosen_(sources.size()),
        taken_(targets.size()) {}

  Status wish(const Wish& wish) {
    const size_t source = TRY(find_called(sources_, wish.source, "in the images"));
    const size_t target = TRY(find_called(targets_, wish.target, "on this machine"));
    if (wished_[source]) return Error::of(EINVAL, "the GPU map names {} twice", wish.source);
    for (const auto& other : wished_)
      if (other == target)
        return Error::of(EINVAL, "the GPU map gives {} to two GPUs", wish.target);
    const std::string why = mismatch(sources_[source], targets_[target]);
    if (!why.empty())
      return Error::of(ENODEV, "the GPU map puts {} on {}, which does not fit: {}",
                       sources_[source].describe(), targets_[target].describe(), why);
    wished_[source] = target;
    return {};
  }

  bool solve(size_t source = 0) {
    if (source == sources_.size()) return true;
    for (size_t target : candidates(source)) {
      if (taken_[target] || !fits(source, target)) continue;
      taken_[target] = true;
      chosen_[source] = target;
      if (solve(source + 1)) return true;
      taken_[target] = false;
    }
    return false;
  }

  Assignment assignment() const {
    Assignment result;
    for (size_t i = 0; i < sources_.size(); i++)
      result[sources_[i].gpu_id] = targets_[chosen_[i]].gpu_id;
    return result;
  }

 private:
  std::vector<size_t> candidates(size_t source) const {
    if (const auto& wished = wished_[source]) return {*wished};
    std::vector<size_t> order(targets_.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    auto rank = [&](size_t i) {
      if (targets_[i].gpu_id == sources_[source].gpu_id) return 0;
      return targets_[i].pci_address == sources_[source].pci_address ? 1 : 2;
    };
    std::ranges::stable_sort(order, {}, rank);
    return order;
  }

  bool fits(size_t source, size_t target) const {
    if (!mismatch(sources_[source], targets_[target]).empty()) return false;
    // A target that the user gave to another source is not free.
    for (size_t other = 0; other < wished_.size(); other++)
      if (other != source && wished_[other] == target) return false;
    const uint64_t hive = sources_[source].property("hive_id");
    for (size_t before = 0; hive && before < source; before++)
      if (sources_[before].property("hive_id") == hive &&
          targets_[chosen_[before]].property("hive_id") != targets_[target].property("hive_id"))
        return false;
    return true;
  }

  std::span<const Gpu> sources_;
  std::span<const Gpu> targets_;
  std::vector<std::optional<size_t>> wished_;
  std::vector<size_t> chosen_;
  std::vector<bool> taken_;
};

Error explain(std::span<const Gpu> sources, std::span<const Gpu> targets) {
  if (targets.size() < sources.size())
    return Error::of(ENODEV, "the images need {} GPUs, this machine has {}", sources.size(),
                     targets.size());
  for (const Gpu& source : sources) {
    std::string reasons;
    bool fits_one = false;
    for (const Gpu& target : targets) {
      const std::string why = mismatch(source, target);
      if (why.empty()) {
        fits_one = true;
        break;
      }
      reasons += std::format("; {}: {}", target.describe(), why);
    }
    if (!fits_one)
      return Error::of(ENODEV, "no GPU of this machine fits the saved {}{}", source.describe(),
                       reasons);
  }
  return Error(ENODEV,
               "every saved GPU fits some GPU of this machine, but not all at once: two need the "
               "same one, or GPUs of one XGMI hive (property hive_id) would be torn apart");
}

}  // namespace

std::string mismatch(const Gpu& source, const Gpu& target) {
  for (const Check& check : kChecks) {
    const uint64_t had = source.property(check.property);
    const uint64_t has = target.property(check.property);
    if (check.rule == Rule::kEqual && had != has)
      return std::format("{} was {:#x}, is {:#x}", check.property, had, has);
    if (check.rule == Rule::kAtLeast && had > has)
      return std::format("{} was {:#x}, is only {:#x}", check.property, had, has);
  }
  return {};
}

Result<std::vector<Wish>> parse_map(std::string_view text) {
  std::vector<Wish> result;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == one.size())
      return Error::of(EINVAL, "GPU map: '{}' is not SOURCE=TARGET", one);
    result.push_back({std::string(one.substr(0, equals)), std::string(one.substr(equals + 1))});
  }
  return result;
}

Result<Assignment> plan(std::span<const Gpu> sources, std::span<const Gpu> targets,
                        std::span<const Wish> wishes) {
  Search search(sources, targets);
  for (const Wish& wish : wishes) TRY(search.wish(wish));
  if (!search.solve()) return explain(sources, targets);
  return search.assignment();
}

}  // namespace topology
