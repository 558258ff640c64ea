// SPDX-License-Identifier: GPL-2.0
// The start of a workload that uses /dev/kfd directly.
#pragma once

#include <memory>
#include <span>

#include "workload/kfd.h"
#include "workload/run.h"
#include "workload/topology.h"

namespace e2e {

template <typename T>
std::unique_ptr<T> on_heap(T value) {
  return std::make_unique<T>(std::move(value));
}

// Finds the GPUs. set_up(Kfd, GPUs, options) creates the process's objects, or returns an error.
// run(objects, options) returns true if all was right. Returns the exit code.
template <typename SetUp, typename Run>
int main_on_gpus(const Options& options, SetUp set_up, Run run) {
  amdgpu_criu::Result<Kfd> kfd = Kfd::open({options.own_pages, options.split});
  if (!kfd.ok()) return skip(kfd.error().message());
  const amdgpu_criu::Result<std::vector<GpuNode>> nodes = list_gpus();
  if (!nodes.ok()) return skip(nodes.error().message());
  if (nodes->size() < options.gpus)
    return skip(amdgpu_criu::formatted("needs {} GPUs, found {}", options.gpus, nodes->size()));
  return set_up_and_run(
      [&] { return set_up(*std::move(kfd), std::span(*nodes).first(options.gpus), options); },
      [&](auto& process) { return run(process, options); });
}

}  // namespace e2e
