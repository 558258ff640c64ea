// SPDX-License-Identifier: GPL-2.0
#include "restore/machine.h"

#include <algorithm>

#include "base/log.h"

namespace restore {

Result<Machine> Machine::create(const Environment& environment, const image::Set& images) {
  Machine machine;
  const bool needs_kfd = std::ranges::any_of(
      images.processes(), [](const auto& entry) { return entry.second.blob.has_value(); });
  if (needs_kfd && !environment.host.has_kfd())
    return base::Error(ENODEV, "the images hold state of /dev/kfd, which this machine has not");
  if (images.gpus().empty()) return machine;
  std::vector<topology::Gpu> sources;
  for (const auto& [gpu_id, gpu] : images.gpus()) sources.push_back(gpu);
  const auto here = TRY(environment.host.gpus());
  machine.targets_ =
      TRY(topology::plan(sources, here, environment.options.map, environment.options.ignore));
  for (const topology::Gpu& gpu : here) machine.minors_[gpu.gpu_id] = gpu.render_minor;
  for (const auto& [source, target] : machine.targets_)
    base::log_info("GPU {:#x} of the images is restored on GPU {:#x}", source, target);
  return machine;
}

}  // namespace restore
