// SPDX-License-Identifier: GPL-2.0
// render_chain: a process that uses render nodes only, to be checkpointed and restored.
#include <unistd.h>

#include <cstring>
#include <memory>

#include "render/buffers.h"
#include "render/numbers.h"
#include "render/stepper.h"
#include "render/syncobjs.h"
#include "workload/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// One open file. Lane 0 owns the shared BOs and the timeline, the others import them.
struct Lane {
  std::string path;
  std::unique_ptr<RenderDevice> device;
  std::unique_ptr<SharedBlocks> blocks;
  std::unique_ptr<Stepper> stepper;
  std::unique_ptr<RenderCopier> copier;
  std::unique_ptr<SyncObject> timeline;
  FileLists lists;  // at the start
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> create(std::span<const std::string> paths,
                                                 const Options& options);
  Status step();
  uint64_t done() const { return done_; }
  // True if all is right.
  Status check(std::vector<std::string>& problems);
  void announce(size_t gpus) const;

 private:
  static constexpr uint64_t kBurst = 6;

  Process(unsigned timeout_ms, uint32_t domain) : timeout_ms_(timeout_ms), domain_(domain) {}
  Status add_lane(const std::string& path);
  Status take_stock();
  Status submit_burst();
  Status reserve_vmid() const;
  Status check_vmid(std::vector<std::string>& problems) const;
  Status check_lane(Lane& lane, std::vector<std::string>& problems);

  unsigned timeout_ms_;
  uint32_t domain_;  // of memory that the GPUs share
  std::vector<Lane> lanes_;
  bool has_vmid_ = false;
  std::unique_ptr<BufferSet> buffers_;
  std::unique_ptr<SyncSet> syncobjs_;
  std::vector<Stepper::Fences> under_way_;
  uint64_t done_ = 0, submitted_ = 0;
};

Status Process::add_lane(const std::string& path) {
  Lane lane;
  lane.path = path;
  lane.device = std::make_unique<RenderDevice>(TRY(RenderDevice::open(path)));
  if (lanes_.empty()) {
    lane.blocks = std::make_unique<SharedBlocks>(TRY(SharedBlocks::create(*lane.device, domain_)));
    lane.blocks->prepare();
    lane.timeline = std::make_unique<SyncObject>(TRY(SyncObject::create(*lane.device)));
  } else {
    const auto dmabufs = TRY(lanes_[0].blocks->export_all());
    const SharedBlocks* cpu = path == lanes_[0].path ? nullptr : lanes_[0].blocks.get();
    lane.blocks =
        std::make_unique<SharedBlocks>(TRY(SharedBlocks::import(*lane.device, dmabufs, cpu)));
    const amdgpu_criu::Fd timeline = TRY(lanes_[0].timeline->export_fd());
    lane.timeline = std::make_unique<SyncObject>(TRY(SyncObject::import(*lane.device, timeline)));
  }
  const auto number = static_cast<unsigned>(lanes_.size());
  lane.stepper =
      std::make_unique<Stepper>(TRY(Stepper::create(*lane.device, *lane.blocks, number, number)));
  lane.copier =
      std::make_unique<RenderCopier>(TRY(RenderCopier::create(*lane.device, timeout_ms_)));
  lanes_.push_back(std::move(lane));
  return {};
}

Result<std::unique_ptr<Process>> Process::create(std::span<const std::string> paths,
                                                 const Options& options) {
  // Linux 7.3 cannot submit with VRAM of an XGMI peer (amdgpu_dma_buf_map() warns and refuses).
  const uint32_t domain =
      paths.size() > 1 && !options.peer_vram ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM;
  std::unique_ptr<Process> process(new Process(options.timeout_s * 1000, domain));
  TRY(process->add_lane(paths[0]));
  TRY(process->add_lane(paths[0]));  // a second file of the same GPU
  for (const std::string& path : paths.subspan(1)) TRY(process->add_lane(path));
  Lane& first = process->lanes_[0];
  process->buffers_ = TRY(BufferSet::create(*first.device, options.many));
  TRY(process->buffers_->fill(*first.copier));
  process->syncobjs_ = TRY(SyncSet::create(*first.device));
  if (options.vmid) TRY(process->reserve_vmid());
  process->has_vmid_ = options.vmid;
  TRY(process->take_stock());
  return process;
}

// One file of a GPU can have a VMID of its own.
Status Process::reserve_vmid() const {
  drm_amdgpu_vm args = {};
  args.in.op = AMDGPU_VM_OP_RESERVE_VMID;
  return lanes_[0].device->command(DRM_AMDGPU_VM, &args, sizeof(args), "cannot reserve a VMID");
}

Status Process::check_vmid(std::vector<std::string>& problems) const {
  if (!has_vmid_) return {};
  drm_amdgpu_vm args = {};
  args.in.op = AMDGPU_VM_OP_RESERVE_VMID;
  const Status status =
      lanes_[1].device->command(DRM_AMDGPU_VM, &args, sizeof(args), "cannot reserve a VMID");
  if (!status.ok()) return {};
  problems.push_back("the reserved VMID was free");
  args.in.op = AMDGPU_VM_OP_UNRESERVE_VMID;
  return lanes_[1].device->command(DRM_AMDGPU_VM, &args, sizeof(args), "cannot free a VMID");
}

Status Process::take_stock() {
  for (Lane& lane : lanes_) lane.lists = TRY(FileLists::of(*lane.device));
  return {};
}

// Several steps are submitted before the first is waited for, so that a checkpoint finds pending
// work.
Status Process::submit_burst() {
  under_way_.clear();
  for (uint64_t i = 0; i < kBurst; ++i) {
    const uint64_t step = submitted_ + 1;
    Lane& lane = lanes_[step % lanes_.size()];
    std::vector<SyncPoint> after;
    if (step > 1) after.push_back({lane.timeline->handle(), step - 1});
    under_way_.push_back(
        TRY(lane.stepper->submit(step, std::move(after), {{lane.timeline->handle(), step}})));
    submitted_ = step;
  }
  return {};
}

Status Process::step() {
  if (done_ == submitted_) TRY(submit_burst());
  const uint64_t step = done_ + 1;
  const Lane& lane = lanes_[step % lanes_.size()];
  const Stepper::Fences& fences = under_way_[under_way_.size() - (submitted_ - done_)];
  TRY(lane.stepper->wait(fences, timeout_ms_));
  for (const Lane& seen : lanes_)
    if (!TRY(seen.timeline->is_signaled(step)))
      return Error::of(EBADMSG, "the fence of step {} is signaled, its point is not", step);
  done_ = step;
  return done_ == submitted_ ? lane.blocks->check_step(step) : Status();
}

Status Process::check_lane(Lane& lane, std::vector<std::string>& problems) {
  lane.blocks->check(done_, "the CPU", problems);
  const RenderBo& x = lane.blocks->x();
  const auto seen = TRY(lane.copier->read(x.va(), x.size(), lane.blocks->handles()));
  if (memcmp(seen.data(), lane.blocks->cpu().x().bytes().data(), x.size()) != 0)
    problems.push_back("block X: the GPU and the CPU see different values");
  TRY(lane.stepper->check_history());
  const uint64_t point = TRY(lane.timeline->last_point());
  if (point != done_)
    problems.push_back(amdgpu_criu::formatted("the timeline is at {}, expected {}", point, done_));
  if (done_ > 1 && !TRY(lane.timeline->is_signaled(done_ / 2)))
    problems.push_back(amdgpu_criu::formatted("point {} of {} is not signaled", done_ / 2, done_));
  return lane.lists.check(*lane.device, problems);
}

Status Process::check(std::vector<std::string>& problems) {
  while (done_ != submitted_) TRY(step());
  for (Lane& lane : lanes_) {
    std::vector<std::string> found;
    const Status status = check_lane(lane, found);
    if (!status.ok()) found.push_back(status.error().message());
    for (const std::string& problem : found)
      problems.push_back(
          amdgpu_criu::formatted("file {} ({}): {}", &lane - lanes_.data(), lane.path, problem));
  }
  TRY(check_vmid(problems));
  TRY(buffers_->check(*lanes_[0].copier, problems));
  return syncobjs_->check(problems);
}

void Process::announce(size_t gpus) const {
  for (const std::string& note : buffers_->notes()) say("note: " + note);
  if (lanes_[0].lists.bos.empty()) say("note: this kernel does not list GEM handles");
  say("note: new numbers: " + lanes_[0].lists.next_numbers);
  say(amdgpu_criu::formatted("ready: pid {} gpus {} files {} bos {} bytes {}", getpid(), gpus,
                             lanes_.size(), buffers_->count(), buffers_->bytes()));
}

int main_with(const Options& options) {
  const auto paths = list_render_nodes();
  if (!paths.ok()) return skip(paths.error().message());
  if (paths->size() < options.gpus)
    return skip(amdgpu_criu::formatted("needs {} GPUs, found {}", options.gpus, paths->size()));
  return set_up_and_run(
      [&] { return Process::create(std::span(*paths).first(options.gpus), options); },
      [&](std::unique_ptr<Process>& process) {
        process->announce(options.gpus);
        return run_steps(*process, options);
      });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_chain",
       "Keeps the kernel's SDMA, compute and graphics rings busy with a chain of dependent\n"
       "steps through several files of render nodes, and has BOs, mappings, contexts, BO lists\n"
       "and syncobjs of every kind, by libdrm. Uses no /dev/kfd.",
       "--gpus --many --peer-vram --vmid --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
