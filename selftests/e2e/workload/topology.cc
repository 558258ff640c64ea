// SPDX-License-Identifier: GPL-2.0
#include "workload/topology.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;

constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes";
constexpr uint64_t kFirstGfx10 = 100000;

using Properties = std::map<std::string, uint64_t>;

Properties read_properties(const std::filesystem::path& file) {
  Properties properties;
  std::ifstream in(file);
  std::string name;
  uint64_t value;
  while (in >> name >> value) properties[name] = value;
  return properties;
}

uint64_t xccs_of(Properties& properties) { return std::max<uint64_t>(properties["num_xcc"], 1); }

// The number of waves of an XCC, as kfd_queue.c counts them: sysfs does not show the debugger's
// share of the save area, which is 32 bytes a wave.
Result<uint64_t> max_waves(Properties& properties) {
  if (!properties["simd_per_cu"] || !properties["simd_arrays_per_engine"])
    return Error::of(ENOTSUP, "the topology has no CU counts");
  const uint64_t cus = properties["simd_count"] / properties["simd_per_cu"] / xccs_of(properties);
  if (properties["gfx_target_version"] >= kFirstGfx10) return cus * 32;
  const uint64_t engines = properties["array_count"] / properties["simd_arrays_per_engine"];
  return std::min(cus * 40, engines * 512);
}

Result<GpuNode> read_gpu(const std::filesystem::path& node, uint32_t gpu_id) {
  Properties properties = read_properties(node / "properties");
  GpuNode gpu;
  gpu.gpu_id = gpu_id;
  gpu.render_minor = static_cast<unsigned>(properties["drm_render_minor"]);
  gpu.hive_id = properties["hive_id"];
  gpu.num_xcc = xccs_of(properties);
  gpu.cwsr_size = properties["cwsr_size"];
  gpu.ctl_stack_size = properties["ctl_stack_size"];
  if (!gpu.cwsr_size || !gpu.ctl_stack_size)
    return Error::of(ENOTSUP, "{}: this kernel does not report cwsr_size", node.string());
  gpu.debug_memory_size = (TRY(max_waves(properties)) * 32 + 63) & ~63ull;
  return gpu;
}

}  // namespace

Result<std::vector<GpuNode>> list_gpus() {
  std::error_code code;
  std::map<unsigned long, std::filesystem::path> nodes;
  for (const auto& entry : std::filesystem::directory_iterator(kNodes, code))
    nodes[std::stoul("0" + entry.path().filename().string())] = entry.path();
  std::vector<GpuNode> gpus;
  for (const auto& [number, path] : nodes) {
    uint32_t gpu_id = 0;
    std::ifstream(path / "gpu_id") >> gpu_id;  // 0: a CPU
    if (gpu_id) gpus.push_back(TRY(read_gpu(path, gpu_id)));
  }
  return gpus;
}

}  // namespace e2e
