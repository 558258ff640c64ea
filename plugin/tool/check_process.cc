// SPDX-License-Identifier: GPL-2.0
// `amdgpu-criu check --pid`: a dry run of a dump.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dump/examination.h"
#include "stock/stock_api.h"
#include "tool/commands.h"
#include "tool/output.h"
#include "tool/traced.h"

namespace amdgpu_criu::tool {
namespace {

using dump::Examination;

// Uses the stock interface if the kernel has no other.
Result<std::unique_ptr<kernel::Api>> find_interface(const host::Host& host) {
  auto api = kernel::make_ioctl_api();
  const Fd kfd = TRY(host.open_kfd());
  const auto query = api->query(kernel::kfd_node(kfd));
  if (query.ok()) return api;
  if (query.error().code() != ENOTTY) return query.error();
  return std::unique_ptr<kernel::Api>(std::make_unique<stock::StockApi>(
      stock::StockContext{stock::make_ioctl(), host}, TRY(host.gpus())));
}

Result<Examination> examine(pid_t pid) {
  const options::Options options = TRY(options::parse({}));
  const host::Host host = host::Host::create();
  const auto tree = TRY(StoppedTree::stop(pid));
  // Before the search for the driver, which a process without a GPU does not need.
  bool uses_gpu = false;
  for (const pid_t one : tree.pids()) uses_gpu = uses_gpu || TRY(host.uses_gpu(one));
  if (!uses_gpu) return Examination();
  const auto api = TRY(find_interface(host));
  return dump::examine(*api, host, options, tree.pids());
}

Json json_of(const Examination& found) {
  Json processes = Json::array(), renders = Json::array();
  for (const image::Process& process : found.processes)
    processes.push_back(Json{{"pid", process.pid},
                             {"comm", process.comm},
                             {"bos", static_cast<uint64_t>(process.bos.size())},
                             {"queues", process.num_queues},
                             {"events", process.num_events},
                             {"svm_ranges", process.num_svm_ranges}});
  for (const image::Render& render : found.renders)
    renders.push_back(Json{{"pid", render.pid},
                           {"comm", render.comm},
                           {"gpu_id", render.gpu.gpu_id},
                           {"bos", static_cast<uint64_t>(render.bos.size())}});
  return {{"ok", found.refusals.empty()},
          {"uses_gpu", found.uses_gpu()},
          {"contents_bytes", found.contents()},
          {"processes", std::move(processes)},
          {"render_files", std::move(renders)},
          {"refusals", found.refusals},
          {"notes", found.notes}};
}

void print(const Examination& found, pid_t pid) {
  for (const image::Process& process : found.processes) {
    if (!process.blob) continue;  // it only has render nodes, which have lines of their own
    printf("process %u (%s): %zu BOs, %u queues, %u events, %u SVM ranges\n", process.pid,
           printable(process.comm).c_str(), process.bos.size(), process.num_queues,
           process.num_events, process.num_svm_ranges);
  }
  for (const image::Render& render : found.renders)
    printf("open renderD%u of process %u (%s): %zu BOs\n", render.gpu.render_minor, render.pid,
           printable(render.comm).c_str(), render.bos.size());
  for (const std::string& note : found.notes) printf("note %s\n", printable(note).c_str());
  for (const std::string& refusal : found.refusals) printf("BAD  %s\n", printable(refusal).c_str());
  if (!found.refusals.empty())
    printf("a dump of process %d would be refused\n", pid);
  else if (!found.uses_gpu())
    printf("ok   process %d and its descendants use no AMD GPU\n", pid);
  else
    printf("ok   a dump of process %d would carry its GPU state, %llu MiB of memory\n", pid,
           static_cast<unsigned long long>(found.contents() >> 20));
}

}  // namespace

int check_process(pid_t pid, Format format) {
  const auto found = examine(pid);
  if (!found.ok()) return complain(2, found.error().message());
  if (format == Format::kJson)
    print_json(json_of(*found));
  else
    print(*found, pid);
  return found->refusals.empty() ? 0 : 1;
}

}  // namespace amdgpu_criu::tool
