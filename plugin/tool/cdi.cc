// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu cdi`: the GPUs of this machine as devices that container engines give to containers.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/host.h"
#include "tool/commands.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

Json device(const std::string& name, std::span<const topology::Gpu> gpus) {
  const host::Config config;
  Json nodes = Json::array({Json{{"path", config.kfd_path}}});
  for (const topology::Gpu& gpu : gpus)
    nodes.push_back({{"path", formatted("{}/renderD{}", config.dri_directory, gpu.render_minor)}});
  return {{"name", name}, {"containerEdits", {{"deviceNodes", std::move(nodes)}}}};
}

}  // namespace

int cdi(const std::string& kind) {
  auto gpus = host::Host::create().gpus();
  if (!gpus.ok()) return complain(2, gpus.error().message());
  if (gpus->empty()) return complain(2, "there is no GPU here");
  std::ranges::sort(*gpus, {}, &topology::Gpu::render_minor);
  Json devices = Json::array();
  for (const topology::Gpu& gpu : *gpus)
    devices.push_back(device(std::to_string(devices.size()), {&gpu, 1}));
  devices.push_back(device("all", *gpus));
  print_json({{"cdiVersion", "0.6.0"}, {"kind", kind}, {"devices", std::move(devices)}});
  return 0;
}

}  // namespace amdgpu_criu::tool
