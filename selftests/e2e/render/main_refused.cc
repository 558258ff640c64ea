// SPDX-License-Identifier: GPL-2.0
// render_refused: a small render_chain with something that cannot be carried, until SIGUSR2.
//
//   render_refused WHAT     one of all_uncarried()
//   render_refused busy     minutes of work are pending; a second process, which is not
//                           dumped, lets the GPU advance
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>

#include "render/refused.h"
#include "workload/packets.h"
#include "workload/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

class Process {
 public:
  static Result<std::unique_ptr<Process>> create(unsigned timeout_ms);
  const RenderDevice& device() const { return *device_; }
  const SharedBlocks& blocks() const { return *blocks_; }
  void set_release(std::function<Status()> release) { release_ = std::move(release); }

  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);

 private:
  explicit Process(unsigned timeout_ms) : timeout_ms_(timeout_ms) {}
  unsigned timeout_ms_;
  std::unique_ptr<RenderDevice> device_;
  std::unique_ptr<SharedBlocks> blocks_;
  std::unique_ptr<Stepper> stepper_;
  std::function<Status()> release_;
  uint64_t done_ = 0;
};

Result<std::unique_ptr<Process>> Process::create(unsigned timeout_ms) {
  const auto paths = TRY(list_render_nodes());
  if (paths.empty()) return Error(ENODEV, "no GPU");
  std::unique_ptr<Process> process(new Process(timeout_ms));
  process->device_ = std::make_unique<RenderDevice>(TRY(RenderDevice::open(paths[0])));
  process->blocks_ = std::make_unique<SharedBlocks>(
      TRY(SharedBlocks::create(*process->device_, AMDGPU_GEM_DOMAIN_VRAM)));
  process->blocks_->prepare();
  process->stepper_ =
      std::make_unique<Stepper>(TRY(Stepper::create(*process->device_, *process->blocks_)));
  return process;
}

Status Process::step() {
  if (release_ && take_release_request()) {
    TRY(release_());
    release_ = nullptr;
    say("released");
  }
  const uint64_t step = done_ + 1;
  TRY(stepper_->wait(TRY(stepper_->submit(step, {}, {})), timeout_ms_));
  TRY(blocks_->check_step(step));
  done_ = step;
  return {};
}

Status Process::check(std::vector<std::string>& problems) {
  blocks_->check(done_, "the CPU", problems);
  return stepper_->check_history();
}

// SDMA jobs that wait for a number to which the other process counts: each is shorter than the
// driver's job timeout, all together are longer than a checkpoint waits.
constexpr uint32_t kJobsOfContext = 32;  // the most before a submission blocks
constexpr uint32_t kContexts = 4;
constexpr uint32_t kJobs = kContexts * kJobsOfContext;
constexpr unsigned kJobMs = 1500;

class Busy {
 public:
  static Result<std::unique_ptr<Busy>> create(const RenderDevice& device, const Mapping& cell);

 private:
  Busy(std::vector<RenderContext> contexts, RenderBo ib, VaRange range)
      : contexts_(std::move(contexts)), ib_(std::move(ib)), range_(std::move(range)) {}
  std::vector<RenderContext> contexts_;
  RenderBo ib_;
  VaRange range_;
};

Result<std::unique_ptr<Busy>> Busy::create(const RenderDevice& device, const Mapping& cell) {
  constexpr uint64_t kSlot = 64;
  std::vector<RenderContext> contexts;
  contexts.reserve(kContexts);
  std::vector<Dependency> before;  // jobs of one context alternate with those of others
  RenderBo ib =
      TRY(RenderBo::create(device, {"jobs", AMDGPU_GEM_DOMAIN_GTT, 0, kJobs * kSlot + kGpuPage}));
  TRY(ib.map_for_cpu());
  TRY(ib.map_for_gpu());
  drm_amdgpu_gem_userptr args = {};
  args.addr = reinterpret_cast<uint64_t>(cell.data());
  args.size = cell.size();
  args.flags = AMDGPU_GEM_USERPTR_REGISTER;
  TRY(device.command(DRM_AMDGPU_GEM_USERPTR, &args, sizeof(args), "cannot share a cell"));
  VaRange range = TRY(VaRange::reserve(device, cell.size()));
  TRY(device.change_map(args.handle, AMDGPU_VA_OP_MAP, range.start(), 0, cell.size()));
  const uint32_t handles[] = {ib.handle(), args.handle};
  for (uint32_t job = 1; job <= kJobs; ++job) {
    SdmaStream stream;
    stream.poll(range.start(), Compare::kGreaterOrEqual, job).pad(16);
    memcpy(ib.at<std::byte>(job * kSlot), stream.dwords().data(), kSlot);
    if (job % kJobsOfContext == 1) contexts.push_back(TRY(RenderContext::create(device)));
    const RenderFence fence = TRY(contexts.back().submit({.ring = 1,
                                                          .ib = ib.va() + job * kSlot,
                                                          .ib_bytes = kSlot,
                                                          .handles = handles,
                                                          .after = std::move(before)}));
    before = {{&contexts.back(), fence}};
  }
  return std::unique_ptr<Busy>(new Busy(std::move(contexts), std::move(ib), std::move(range)));
}

// Counts for the GPU while the other process lives; jumps to the end when asked to release it.
int feed(const Mapping& cell, pid_t worker) {
  const Status status = handle_signals();
  if (!status.ok()) return kSetupFailed;
  for (uint32_t count = 1; count <= kJobs; ++count) {
    pause_ms(kJobMs);
    if (take_release_request()) count = kJobs;
    std::atomic_ref(*reinterpret_cast<uint32_t*>(cell.data())).store(count);
  }
  while (kill(worker, 0) == 0) pause_ms(kJobMs);
  return kGood;
}

int work(const std::string& what, const Options& options, const Mapping& cell) {
  Status status = handle_signals();
  auto process = Process::create(options.timeout_s * 1000);
  if (!process.ok()) return skip(process.error().message());
  std::unique_ptr<Busy> busy;
  if (what == "busy") {
    auto made = Busy::create((*process)->device(), cell);
    if (!made.ok()) return skip(made.error().message());
    busy = *std::move(made);
  } else {
    const auto* state = std::ranges::find(all_uncarried(), what, &Uncarried::name).base();
    auto release = state->make((*process)->device(), (*process)->blocks());
    if (!release.ok()) return skip(std::string(state->what) + ": " + release.error().message());
    (*process)->set_release(*std::move(release));
  }
  if (!status.ok()) return kSetupFailed;
  say(amdgpu_criu::formatted("ready: pid {} bos 4 bytes {}", getpid(),
                             2 * SharedBlocks::kBlockSize));
  return run_steps(**process, options) ? kGood : kDamaged;
}

int main_with(const std::string& what, const Options& options) {
  if (what != "busy") return work(what, options, {});
  Result<Mapping> cell = Mapping::map(kGpuPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  if (!cell.ok()) return skip(cell.error().message());
  signal(SIGCHLD, SIG_IGN);
  const pid_t worker = fork();
  if (worker > 0) return feed(*cell, worker);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  return work(what, options, *cell);
}

bool is_known(std::string_view what) {
  return what == "busy" ||
         std::ranges::find(all_uncarried(), what, &Uncarried::name) != all_uncarried().end();
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (!e2e::is_known(what)) {
    fprintf(stderr, "usage: render_refused WHAT [OPTION VALUE]...\nWHAT is one of: busy");
    for (const e2e::Uncarried& state : e2e::all_uncarried())
      fprintf(stderr, " %.*s", static_cast<int>(state.name.size()), state.name.data());
    fprintf(stderr, "\n");
    return e2e::kUsageError;
  }
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_refused", "A process with state that cannot be carried, until SIGUSR2.",
       "--steps --interval --timeout"},
      argc - 1, argv + 1);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(what, parsed.options);
}
