// SPDX-License-Identifier: GPL-2.0
#include "topology/topology.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace amdgpu_criu::topology {
namespace {

namespace fs = std::filesystem;

// One line of a `properties` file: a name, a space, a decimal number.
std::optional<std::pair<std::string, uint64_t>> parse_property(const std::string& line) {
  const size_t space = line.find(' ');
  if (space == std::string::npos || space == 0) return std::nullopt;
  uint64_t value = 0;
  const char* begin = line.data() + space + 1;
  const char* end = line.data() + line.size();
  auto [rest, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return std::pair(line.substr(0, space), value);
}

std::map<std::string, uint64_t> read_properties(const fs::path& file) {
  std::map<std::string, uint64_t> result;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (auto property = parse_property(line)) result.insert(*property);
  return result;
}

// Sizes of the VRAM heaps (1: visible to the CPU, 2: not) are in separate files.
uint64_t vram_size(const fs::path& node) {
  uint64_t total = 0;
  std::error_code ignored;
  for (const auto& bank : fs::directory_iterator(node / "mem_banks", ignored)) {
    auto properties = read_properties(bank.path() / "properties");
    const uint64_t heap = properties["heap_type"];
    if (heap == 1 || heap == 2) total += properties["size_in_bytes"];
  }
  return total;
}

struct Cache {
  uint64_t level = 0, first_cu = 0;
  uint64_t cus = 0;  // that share it, from the first one on, a bit for each: "sibling_map 1,1,0,"
};

Cache read_cache(const fs::path& cache) {
  constexpr std::string_view kSiblings = "sibling_map ";
  Cache result;
  std::ifstream in(cache / "properties");
  for (std::string line; std::getline(in, line);) {
    const auto property = parse_property(line);
    if (property && property->first == "level") result.level = property->second;
    if (property && property->first == "processor_id_low") result.first_cu = property->second;
    if (!line.starts_with(kSiblings)) continue;
    for (size_t i = 0; i < 32 && kSiblings.size() + 2 * i < line.size(); i++)
      result.cus |= uint64_t{line[kSiblings.size() + 2 * i] == '1'} << i;
  }
  return result;
}

// A number for how many CUs each shader array has; nullopt: not known. KFD numbers the CUs that are
// fused off, too, and the caches of the first level cover all others.
std::optional<uint64_t> cu_layout(const fs::path& node, const Gpu& gpu) {
  const uint64_t each = gpu.property("cu_per_simd_array"), first = gpu.property("simd_id_base");
  std::set<uint64_t> units;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(node / "caches", ignored)) {
    const Cache cache = read_cache(entry.path());
    if (cache.level != 1 || cache.first_cu < first) continue;
    for (uint64_t i = 0; i < 32; i++)
      if (cache.cus >> i & 1) units.insert(cache.first_cu - first + i);
  }
  if (!each || units.empty()) return std::nullopt;
  std::map<uint64_t, uint64_t> arrays;
  for (const uint64_t unit : units) arrays[unit / each]++;
  uint64_t sum = 0;
  for (const auto& [array, count] : arrays) sum = (sum * 0x100000001b3) ^ (array << 8 | count);
  return sum;
}

struct Link {
  uint64_t node = 0;
  uint64_t type = 0;
};

// KFD lists the links of a node in two folders: through the CPU or XGMI, and directly through PCIe.
std::vector<Link> read_links(const fs::path& node) {
  std::vector<Link> result;
  std::error_code ignored;
  for (const char* folder : {"io_links", "p2p_links"})
    for (const auto& link : fs::directory_iterator(node / folder, ignored)) {
      auto properties = read_properties(link.path() / "properties");
      if (properties.contains("node_to"))
        result.push_back({properties["node_to"], properties["type"]});
    }
  return result;
}

std::string pci_address(const std::map<std::string, uint64_t>& properties) {
  auto value = [&](const char* name) -> uint64_t {
    auto found = properties.find(name);
    return found == properties.end() ? 0 : found->second;
  };
  const uint64_t location = value("location_id");
  return formatted("{:04x}:{:02x}:{:02x}.{:x}", value("domain"), location >> 8 & 0xff,
                   location >> 3 & 0x1f, location & 7);
}

// 0 for a node that has only CPUs; nullopt: hidden by the device cgroup.
std::optional<uint32_t> read_gpu_id(const fs::path& node) {
  std::ifstream in(node / "gpu_id");
  uint32_t gpu_id = 0;
  return in >> gpu_id ? std::optional(gpu_id) : std::nullopt;
}

std::optional<Gpu> read_gpu(const fs::path& node, uint32_t gpu_id) {
  Gpu gpu;
  gpu.gpu_id = gpu_id;
  gpu.properties = read_properties(node / "properties");
  if (gpu.properties.empty()) return std::nullopt;
  gpu.properties["vram_size"] = vram_size(node);
  if (const auto layout = cu_layout(node, gpu)) gpu.properties[kCuLayout] = *layout;
  gpu.render_minor = gpu.property("drm_render_minor");
  gpu.unique_id = gpu.property("unique_id");
  gpu.pci_address = pci_address(gpu.properties);
  return gpu;
}

// `ids`: gpu_id by node number. If a GPU has links to several CPU nodes, the lowest one counts.
void connect(Gpu& gpu, const std::vector<Link>& links, const std::map<uint64_t, uint32_t>& ids) {
  for (const Link& link : links) {
    auto end = ids.find(link.node);
    if (end == ids.end()) continue;
    if (end->second) {
      gpu.links[end->second] = link.type;
      continue;
    }
    auto [numa, added] = gpu.properties.emplace("numa_node", link.node);
    if (!added) numa->second = std::min(numa->second, link.node);
  }
}

}  // namespace

uint64_t Gpu::property(const std::string& name) const {
  auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

std::string Gpu::describe() const {
  return formatted("GPU {:#x} ({}, renderD{})", gpu_id, pci_address, render_minor);
}

Result<std::vector<Gpu>> read_gpus(const std::string& nodes) {
  std::vector<Gpu> result;
  std::map<uint64_t, uint32_t> ids;
  std::vector<std::vector<Link>> links;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nodes, error)) {
    const auto gpu_id = read_gpu_id(entry.path());
    if (!gpu_id) continue;
    const auto number = strtoull(entry.path().filename().c_str(), nullptr, 10);
    ids[number] = *gpu_id;
    if (*gpu_id == 0) continue;
    if (auto gpu = read_gpu(entry.path(), *gpu_id)) {
      result.push_back(std::move(*gpu));
      links.push_back(read_links(entry.path()));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return Error::of(error.value(), "cannot read {}: {}", nodes, error.message());
  for (size_t i = 0; i < result.size(); i++) connect(result[i], links[i], ids);
  std::ranges::sort(result, {}, &Gpu::render_minor);
  return result;
}

}  // namespace amdgpu_criu::topology
