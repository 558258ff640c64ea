// SPDX-License-Identifier: GPL-2.0
// gpu_shapes: a process with many BOs of one size in VRAM, full of incompressible words. SIGUSR1:
// compare all. SIGUSR2: rewrite a twentieth of it. SIGTERM: compare, and end.
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "workload/control.h"
#include "workload/copier.h"
#include "workload/start.h"

namespace e2e {
namespace {

using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// The unit of rewriting, unless BOs are smaller.
constexpr uint64_t kUnit = 1 << 20;
constexpr uint64_t kDirtyOneOf = 20;

// The BOs of one GPU and the contents of their units.
class Shapes {
 public:
  static Result<Shapes> create(const Kfd& kfd, const Gpu& gpu, Copier& copier,
                               const Options& options) {
    Shapes shapes(copier, std::min<uint64_t>(kUnit, options.kib << 10));
    for (unsigned i = 0; i < options.count; ++i)
      shapes.bos_.push_back(
          TRY(Bo::create(kfd, gpu, {}, {Domain::kVram, options.kib << 10, false})));
    shapes.generations_.resize(shapes.bytes() / shapes.unit_ + shapes.bos_.size());
    for (uint64_t unit = 0; unit < shapes.units(); ++unit) TRY(shapes.write(unit));
    return shapes;
  }

  // Rewrites every twentieth unit, others the next time.
  Result<uint64_t> dirty() {
    uint64_t bytes = 0;
    for (uint64_t unit = turn_++ % kDirtyOneOf; unit < units(); unit += kDirtyOneOf) {
      ++generations_[unit];
      TRY(write(unit));
      bytes += part_of(unit).bytes;
    }
    return bytes;
  }

  Status check(std::vector<std::string>& problems) const {
    for (uint64_t unit = 0; unit < units(); ++unit) {
      const auto damage = TRY(copier_->check(bo_of(unit), pattern_of(unit), part_of(unit)));
      if (damage)
        problems.push_back(amdgpu_criu::formatted("BO {}: {} bytes wrong, first at {:#x}",
                                                  unit / per_bo(), damage->bytes,
                                                  damage->first_offset));
    }
    return {};
  }

  size_t bo_count() const { return bos_.size(); }
  uint64_t bytes() const { return bos_.size() * bos_[0].size(); }

 private:
  Shapes(Copier& copier, uint64_t unit) : copier_(&copier), unit_(unit) {}

  uint64_t per_bo() const { return (bos_[0].size() + unit_ - 1) / unit_; }
  uint64_t units() const { return per_bo() * bos_.size(); }
  const Bo& bo_of(uint64_t unit) const { return bos_[unit / per_bo()]; }
  Part part_of(uint64_t unit) const {
    const uint64_t offset = unit % per_bo() * unit_;
    return {offset, std::min(unit_, bos_[0].size() - offset)};
  }
  Pattern pattern_of(uint64_t unit) const { return Pattern(unit << 16 | generations_[unit]); }
  Status write(uint64_t unit) {
    return copier_->fill(bo_of(unit), pattern_of(unit), part_of(unit));
  }

  Copier* copier_;
  uint64_t unit_;
  std::vector<Bo> bos_;
  std::vector<uint16_t> generations_;
  uint64_t turn_ = 0;
};

// Each member depends on the previous ones.
struct Process {
  std::unique_ptr<Kfd> kfd;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<std::unique_ptr<Doorbells>> doorbells;
  std::unique_ptr<EventPage> events;
  std::vector<std::unique_ptr<Copier>> copiers;
  std::vector<Shapes> shapes;
  Mapping heap;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Shapes& one : shapes) sum += one.bytes();
    return sum;
  }
  bool verify(const char* word) const {
    std::vector<std::string> problems;
    for (const Shapes& one : shapes)
      if (const Status status = one.check(problems); !status.ok())
        problems.push_back(status.error().message());
    if (heap.size())
      if (const auto damage = Pattern(1).check(heap.bytes()))
        problems.push_back(amdgpu_criu::formatted("heap: {} bytes wrong", damage->bytes));
    return give_verdict(word, 0, problems);
  }
};

Result<Process> set_up(Kfd opened, std::span<const GpuNode> nodes, const Options& options) {
  Process process;
  process.kfd = on_heap(std::move(opened));
  std::vector<const Gpu*> gpus;
  for (const GpuNode& node : nodes) {
    process.gpus.push_back(on_heap(TRY(Gpu::open(*process.kfd, node))));
    process.doorbells.push_back(std::make_unique<Doorbells>());
    gpus.push_back(process.gpus.back().get());
  }
  process.events = on_heap(TRY(EventPage::create(*process.kfd, *gpus[0], gpus)));
  for (size_t i = 0; i < gpus.size(); ++i) {
    process.copiers.push_back(
        on_heap(TRY(Copier::create(*process.kfd, *gpus[i], *process.doorbells[i], *process.events,
                                   options.timeout_s * 1000))));
    process.shapes.push_back(
        TRY(Shapes::create(*process.kfd, *gpus[i], *process.copiers[i], options)));
  }
  if (options.heap_mib) {
    process.heap = TRY(
        Mapping::map(options.heap_mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
    Pattern(1).fill(process.heap.bytes());
  }
  return process;
}

Status dirty(Process& process) {
  uint64_t bytes = 0;
  for (Shapes& one : process.shapes) bytes += TRY(one.dirty());
  say(amdgpu_criu::formatted("dirtied: {} of {} bytes", bytes, process.bytes()));
  return {};
}

bool wait_for_orders(Process& process, const Options& options) {
  bool good = true;
  while (!stop_requested()) {
    if (take_verify_request()) good &= process.verify("verify");
    if (take_release_request())
      if (const Status status = dirty(process); !status.ok()) {
        say("stopped: " + status.error().message());
        return false;
      }
    pause_ms(options.interval_ms);
  }
  return process.verify("final") && good;
}

bool run(Process& process, const Options& options) {
  say(amdgpu_criu::formatted("ready: pid {} gpus {} bos {} bytes {}", getpid(), process.gpus.size(),
                             process.shapes[0].bo_count() * process.shapes.size(),
                             process.bytes()));
  return wait_for_orders(process, options);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  e2e::ParsedOptions parsed = e2e::parse_options(
      {"gpu_shapes",
       "Has BOs of one size in VRAM, and waits. SIGUSR2: writes a twentieth of it again.",
       "--gpus --count --kib --heap --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_on_gpus(parsed.options, e2e::set_up, e2e::run);
}
