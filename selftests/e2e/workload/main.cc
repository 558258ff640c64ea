// SPDX-License-Identifier: GPL-2.0
// gpu_chain: a process with GPU memory and busy queues, to be checkpointed and restored.
#include <unistd.h>

#include <memory>

#include "workload/chain.h"
#include "workload/data.h"
#include "workload/run.h"
#include "workload/start.h"

namespace e2e {
namespace {

using amdgpu_criu::Result;
using amdgpu_criu::Status;

// All objects of the process; each member depends on the previous ones.
struct Process {
  amdgpu_criu::Status step() const { return chain->step(); }
  uint64_t done() const { return chain->done(); }
  Status check(std::vector<std::string>& problems) const;

  std::unique_ptr<Kfd> kfd;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<std::unique_ptr<Doorbells>> doorbells;
  std::unique_ptr<EventPage> events;
  std::vector<std::unique_ptr<Copier>> copiers;
  std::unique_ptr<DataSet> data;
  std::unique_ptr<Bo> hdp_flush;
  std::unique_ptr<Chain> chain;
};

template <typename T>
std::vector<T*> pointers(const std::vector<std::unique_ptr<T>>& owners) {
  std::vector<T*> out;
  for (const auto& owner : owners) out.push_back(owner.get());
  return out;
}

// The page that user-mode drivers use to flush HDP; not every GPU has one.
std::unique_ptr<Bo> make_hdp_flush(const Kfd& kfd, const Gpu& gpu) {
  Result<Bo> bo = Bo::create_special(kfd, gpu, Domain::kMmio, 4096, 0);
  if (bo.ok()) return on_heap(*std::move(bo));
  say("note: no HDP flush page: " + bo.error().message());
  return nullptr;
}

Result<Process> set_up(Kfd opened, std::span<const GpuNode> nodes, const Options& options) {
  const unsigned timeout_ms = options.timeout_s * 1000;
  Process process;
  process.kfd = on_heap(std::move(opened));
  const Kfd& kfd = *process.kfd;
  for (const GpuNode& node : nodes) {
    process.gpus.push_back(on_heap(TRY(Gpu::open(kfd, node))));
    process.doorbells.push_back(std::make_unique<Doorbells>());
  }
  const std::vector<Gpu*> mutable_gpus = pointers(process.gpus);
  const std::vector<const Gpu*> gpus(mutable_gpus.begin(), mutable_gpus.end());
  process.events = on_heap(TRY(EventPage::create(kfd, *gpus[0], gpus)));
  for (size_t i = 0; i < gpus.size(); ++i)
    process.copiers.push_back(on_heap(
        TRY(Copier::create(kfd, *gpus[i], *process.doorbells[i], *process.events, timeout_ms))));
  process.data = on_heap(TRY(DataSet::create(kfd, gpus, options)));
  TRY(process.data->fill(pointers(process.copiers)));
  process.hdp_flush = make_hdp_flush(kfd, *gpus[0]);
  process.chain = on_heap(
      TRY(Chain::create(kfd, gpus, pointers(process.doorbells), *process.events, timeout_ms)));
  return process;
}

void announce(const Process& process) {
  unsigned bos = process.data->bo_count() + process.chain->bo_count() + 1;
  uint64_t bytes = process.data->bytes() + process.chain->bytes() + Kfd::kSignalPageSize;
  for (const auto& doorbells : process.doorbells) bos += doorbells->bo_count();
  for (const auto& copier : process.copiers) {
    bos += copier->bo_count();
    bytes += copier->bytes();
  }
  bos += process.hdp_flush && process.hdp_flush->handle() ? 1 : 0;
  say(amdgpu_criu::formatted("ready: pid {} kfd {} gpus {} bos {} bytes {} queues {} events {}",
                             getpid(), process.kfd->version(), process.gpus.size(), bos, bytes,
                             process.chain->queue_count() + process.copiers.size(),
                             process.chain->event_count() + process.copiers.size()));
}

Status Process::check(std::vector<std::string>& problems) const {
  chain->check(problems);
  return data->check(pointers(copiers), problems);
}

bool run(Process& process, const Options& options) {
  announce(process);
  return run_steps(process, options);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"gpu_chain",
       "Keeps PM4, AQL and SDMA queues busy with a chain of dependent steps and fills GPU memory\n"
       "with a pattern, by raw KFD ioctls.",
       "--gpus --vram --hidden --gtt --userptr --small --own-pages --split --steps --interval "
       "--timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_on_gpus(parsed.options, e2e::set_up, e2e::run);
}
