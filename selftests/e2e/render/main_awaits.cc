// SPDX-License-Identifier: GPL-2.0
// render_awaits DOOR: two processes. A job that the child has submitted through a render node waits
// for the number of the step, which an SDMA queue of /dev/kfd of its parent writes when it finds
// that number, or a higher one, in the file DOOR. Another program writes it there.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "render/channel.h"
#include "render/device.h"
#include "workload/queue_sdma.h"
#include "workload/run.h"
#include "workload/start.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// BO "cells", of KFD.
constexpr uint64_t kGate = 0;     // written by the queue
constexpr uint64_t kAnswer = 64;  // written by the job
constexpr uint64_t kJob = 64;     // bytes of commands, and there are kJobs places
constexpr uint64_t kJobs = 8;

// Submits the jobs, in the child.
class Follower {
 public:
  static Result<std::unique_ptr<Follower>> create(const std::string& path, const Fd& cells) {
    auto device = std::make_unique<RenderDevice>(TRY(RenderDevice::open(path)));
    RenderBo imported = TRY(RenderBo::import(*device, cells));
    TRY(imported.map_for_gpu());
    RenderBo commands =
        TRY(RenderBo::create(*device, {"commands", AMDGPU_GEM_DOMAIN_GTT, 0, uint64_t{kGpuPage}}));
    TRY(commands.map_for_cpu());
    TRY(commands.map_for_gpu());
    RenderContext context = TRY(RenderContext::create(*device));
    return std::unique_ptr<Follower>(new Follower(std::move(device), std::move(imported),
                                                  std::move(commands), std::move(context)));
  }

  Status submit(uint64_t step) {
    const auto number = static_cast<uint32_t>(step);
    SdmaStream stream;
    stream.poll(cells_.va() + kGate, Compare::kGreaterOrEqual, number)
        .fence(cells_.va() + kAnswer, number)
        .pad(kJob / 4);
    const uint64_t place = step % kJobs * kJob;
    memcpy(commands_.at<std::byte>(place), stream.dwords().data(), kJob);
    const uint32_t handles[] = {cells_.handle(), commands_.handle()};
    TRY(context_.submit({.ib = commands_.va() + place, .ib_bytes = kJob, .handles = handles}));
    return {};
  }
  Status check() const { return context_.check_alive(); }

  // Until the leader exits.
  [[noreturn]] void follow(const Channel& channel) {
    for (;;) {
      const Result<Request> request = channel.next();
      if (!request.ok() || request->what == Ask::kStop) _exit(kGood);
      const Status status = request->what == Ask::kStep ? submit(request->number) : check();
      if (!status.ok()) say("damage: in the child: " + status.error().message());
      if (!channel.answer({status.ok() ? 0u : 1u, 0}).ok()) _exit(kGood);
    }
  }

 private:
  Follower(std::unique_ptr<RenderDevice> device, RenderBo cells, RenderBo commands,
           RenderContext context)
      : device_(std::move(device)),
        cells_(std::move(cells)),
        commands_(std::move(commands)),
        context_(std::move(context)) {}

  std::unique_ptr<RenderDevice> device_;
  RenderBo cells_, commands_;
  RenderContext context_;
};

// Has the queue.
class Leader {
 public:
  static Result<std::unique_ptr<Leader>> create(const GpuNode& node, const char* door,
                                                const Options& options) {
    // The child has no file of the parent.
    auto [here, there] = TRY(Channel::pair());
    const pid_t pid = fork();
    if (pid < 0) return Error::system("cannot fork");
    if (pid == 0) {
      here = std::move(there);
      run_child(here, node);
    }
    std::unique_ptr<Leader> leader(new Leader(TRY(Kfd::open()), std::move(here), pid, options));
    TRY(leader->set_up(node, door));
    return leader;
  }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;
  ~Leader() {
    (void)channel_.ask({Ask::kStop, 0, 0});
    waitpid(child_, nullptr, 0);
  }

  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const {
    say(amdgpu_criu::formatted("ready: pid {} child {} bos 2 queues 1", getpid(), child_));
  }

 private:
  Leader(Kfd kfd, Channel channel, pid_t child, const Options& options)
      : options_(options), kfd_(std::move(kfd)), channel_(std::move(channel)), child_(child) {}
  [[noreturn]] static void run_child(const Channel& channel, const GpuNode& node);
  Status set_up(const GpuNode& node, const char* door);
  Status map_door(const char* path);
  Status ask(Ask what, uint64_t number);

  Options options_;
  Kfd kfd_;
  Channel channel_;
  pid_t child_;
  std::unique_ptr<Gpu> gpu_;
  Doorbells doorbells_;
  std::unique_ptr<Bo> cells_, door_;
  std::unique_ptr<SdmaQueue> queue_;
  uint64_t done_ = 0;
};

void Leader::run_child(const Channel& channel, const GpuNode& node) {
  const auto create = [&]() -> Result<std::unique_ptr<Follower>> {
    const std::vector<Fd> cells = TRY(channel.receive_fds(1));
    return Follower::create(amdgpu_criu::formatted("/dev/dri/renderD{}", node.render_minor),
                            cells[0]);
  };
  auto follower = create();
  if (!follower.ok()) say("setup failed: " + follower.error().message());
  const Status sent = channel.answer({follower.ok() ? 0u : 1u, 0});
  if (!follower.ok() || !sent.ok()) _exit(kSetupFailed);
  (*follower)->follow(channel);
}

// KFD has the pages of the address, whatever is mapped there.
Status Leader::map_door(const char* path) {
  const Fd file = TRY(Fd::open(path, O_RDWR));
  door_ = on_heap(TRY(Bo::create(kfd_, *gpu_, {}, {Domain::kUserptr, kGpuPage, true, true})));
  if (mmap(door_->bytes().data(), kGpuPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           file.get(), 0) == MAP_FAILED)
    return Error::system("cannot map {}", path);
  return {};
}

Status Leader::set_up(const GpuNode& node, const char* door) {
  gpu_ = on_heap(TRY(Gpu::open(kfd_, node)));
  TRY(map_door(door));
  cells_ = on_heap(TRY(Bo::create(kfd_, *gpu_, {}, {Domain::kGtt, kGpuPage, true, true})));
  queue_ = on_heap(TRY(SdmaQueue::create(kfd_, *gpu_, doorbells_)));
  memset(cells_->bytes().data(), 0, cells_->size());
  std::vector<Fd> shared;
  shared.push_back(TRY(kfd_.export_dmabuf(cells_->handle())));
  TRY(channel_.send_fds(shared));
  if (TRY(channel_.wait_for_answer()).problems) return Error(EPROTO, "the child is not ready");
  return {};
}

Status Leader::ask(Ask what, uint64_t number) {
  if (TRY(channel_.ask({what, 0, number})).problems) return Error(EPROTO, "the child has failed");
  return {};
}

Status Leader::step() {
  const uint64_t step = done_ + 1;
  TRY(ask(Ask::kStep, step));
  const auto number = static_cast<uint32_t>(step);
  SdmaStream stream;
  stream.poll(door_->va(), Compare::kGreaterOrEqual, number).fence(cells_->va() + kGate, number);
  TRY(queue_->submit(std::move(stream)));
  const std::atomic_ref answer(*cells_->at<uint32_t>(kAnswer));
  for (unsigned ms = 0; answer.load() != step; ++ms) {
    if (ms > options_.timeout_s * 1000)
      return Error::of(ETIMEDOUT, "the job of step {} is not complete", step);
    pause_ms(1);
  }
  done_ = step;
  return {};
}

Status Leader::check(std::vector<std::string>& problems) {
  TRY(ask(Ask::kVerify, done_));
  if (*cells_->at<uint32_t>(kGate) != done_) problems.push_back("the queue's number is wrong");
  return {};
}

int main_with(const char* door, const Options& options) {
  const Result<std::vector<GpuNode>> nodes = list_gpus();
  if (!nodes.ok()) return skip(nodes.error().message());
  if (nodes->empty()) return skip("no GPU");
  return set_up_and_run([&] { return Leader::create(nodes->front(), door, options); },
                        [&](std::unique_ptr<Leader>& leader) {
                          leader->announce();
                          return run_steps(*leader, options);
                        });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const char* door = argc > 1 && argv[1][0] != '-' ? argv[1] : nullptr;
  const int words = door ? 1 : 0;
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_awaits DOOR", "A job of one process waits for a queue of another one.",
       "--steps --interval --timeout"},
      argc - words, argv + words);
  if (parsed.exit_code) return *parsed.exit_code;
  return door ? e2e::main_with(door, parsed.options) : e2e::kUsageError;
}
