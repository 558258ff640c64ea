// SPDX-License-Identifier: GPL-2.0
#include "topology/topology.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace topology {
namespace {

using base::Error;
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

// Sizes of the VRAM heaps (1: visible to the CPU, 2: not) are in files of their own.
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

std::string pci_address(const std::map<std::string, uint64_t>& properties) {
  auto value = [&](const char* name) -> uint64_t {
    auto found = properties.find(name);
    return found == properties.end() ? 0 : found->second;
  };
  const uint64_t location = value("location_id");
  return std::format("{:04x}:{:02x}:{:02x}.{:x}", value("domain"), location >> 8 & 0xff,
                     location >> 3 & 0x1f, location & 7);
}

}  // namespace

uint64_t Gpu::property(const std::string& name) const {
  auto found = properties.find(name);
  return found == properties.end() ? 0 : found->second;
}

std::string Gpu::describe() const {
  return std::format("GPU {:#x} ({}, renderD{})", gpu_id, pci_address, render_minor);
}

Result<std::vector<Gpu>> read_gpus(const std::string& nodes) {
  std::vector<Gpu> result;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nodes, error)) {
    std::ifstream id_file(entry.path() / "gpu_id");
    uint32_t gpu_id = 0;
    // CPU nodes have gpu_id 0; a node hidden by the device cgroup cannot be read.
    if (!(id_file >> gpu_id) || gpu_id == 0) continue;
    Gpu gpu;
    gpu.gpu_id = gpu_id;
    gpu.properties = read_properties(entry.path() / "properties");
    if (gpu.properties.empty()) continue;
    gpu.properties["vram_size"] = vram_size(entry.path());
    gpu.render_minor = gpu.property("drm_render_minor");
    gpu.unique_id = gpu.property("unique_id");
    gpu.pci_address = pci_address(gpu.properties);
    result.push_back(std::move(gpu));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return Error::of(error.value(), "cannot read {}: {}", nodes, error.message());
  std::ranges::sort(result, {}, &Gpu::render_minor);
  return result;
}

}  // namespace topology
