// SPDX-License-Identifier: GPL-2.0
#include "topology/wishes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace amdgpu_criu::topology {
namespace {

std::optional<uint64_t> parse_number(std::string_view text, int radix) {
  uint64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, radix);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_gpu_id(std::string_view text) {
  return text.starts_with("0x") ? parse_number(text.substr(2), 16) : parse_number(text, 10);
}

bool is_called(const Gpu& gpu, std::string_view name) {
  if (name == gpu.pci_address || name == formatted("renderD{}", gpu.render_minor)) return true;
  // GPUs without a UUID have unique_id 0.
  if (name.starts_with("GPU-"))
    return gpu.unique_id && parse_number(name.substr(4), 16) == gpu.unique_id;
  return parse_gpu_id(name) == gpu.gpu_id;
}

// Place of the GPU that is number `index` in the order of render nodes.
std::optional<size_t> place_of(std::span<const Gpu> gpus, uint64_t index) {
  if (index >= gpus.size()) return std::nullopt;
  std::vector<size_t> order(gpus.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return gpus[i].render_minor; });
  return order[index];
}

}  // namespace

Result<size_t> find_called(std::span<const Gpu> gpus, const std::string& name, const char* where) {
  std::optional<size_t> found;
  if (name.starts_with("#")) {
    if (auto index = parse_number(std::string_view(name).substr(1), 10))
      found = place_of(gpus, *index);
  } else {
    auto gpu = std::ranges::find_if(gpus, [&](const Gpu& one) { return is_called(one, name); });
    if (gpu != gpus.end()) found = gpu - gpus.begin();
  }
  if (found) return *found;
  std::string there;
  for (const Gpu& gpu : gpus) there += (there.empty() ? "" : ", ") + gpu.describe();
  return Error::of(EINVAL, "the GPU map names {}, which is not {}; there: {}", name, where,
                   there.empty() ? "none" : there);
}

Result<std::vector<Wish>> parse_map(std::string_view text) {
  std::vector<Wish> result;
  for (bool more = !text.empty(); more;) {
    const std::string_view one = text.substr(0, text.find(','));
    more = one.size() < text.size();
    text.remove_prefix(one.size() + more);
    const size_t equals = one.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == one.size())
      return Error::of(EINVAL, "GPU map: '{}' is not SOURCE=TARGET", one);
    result.push_back({std::string(one.substr(0, equals)), std::string(one.substr(equals + 1))});
  }
  return result;
}

}  // namespace amdgpu_criu::topology
