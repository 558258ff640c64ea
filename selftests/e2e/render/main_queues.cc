// SPDX-License-Identifier: GPL-2.0
// render_queues: a process with user queues, to be checkpointed and restored.
#include <unistd.h>

#include <memory>

#include "render/numbers.h"
#include "render/stepper.h"
#include "render/userqs.h"
#include "workload/packets.h"
#include "workload/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

// A step is that of render/stepper.h, by a queue for SDMA and one for compute, which wait for each
// other in memory of a userptr. The fence of the compute queue signals a syncobj for each step.
class Process {
 public:
  static Result<std::unique_ptr<Process>> create(const std::string& path, unsigned timeout_ms);
  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const;

 private:
  // Steps that are submitted before the first is waited for, so that a checkpoint finds packets and
  // fences in flight, which it waits for.
  static constexpr uint64_t kBurst = 6;
  // Words that the queues wait for: the last step of each.
  static constexpr uint64_t kSdmaDone = 0, kComputeDone = 64;

  explicit Process(unsigned timeout_ms) : timeout_ms_(timeout_ms) {}
  Status make_queues();
  Status submit();

  unsigned timeout_ms_;
  std::unique_ptr<RenderDevice> device_;
  std::unique_ptr<SharedBlocks> blocks_;
  std::unique_ptr<RenderCopier> copier_;
  std::unique_ptr<RenderBo> doorbells_, words_;
  std::unique_ptr<UserQueue> sdma_, compute_;
  std::vector<SyncObject> syncobjs_;
  FileLists lists_;  // at the start
  uint64_t done_ = 0, submitted_ = 0;
};

Result<std::unique_ptr<Process>> Process::create(const std::string& path, unsigned timeout_ms) {
  std::unique_ptr<Process> process(new Process(timeout_ms));
  process->device_ = std::make_unique<RenderDevice>(TRY(RenderDevice::open(path)));
  const RenderDevice& device = *process->device_;
  process->blocks_ =
      std::make_unique<SharedBlocks>(TRY(SharedBlocks::create(device, AMDGPU_GEM_DOMAIN_VRAM)));
  process->blocks_->prepare();
  process->copier_ = std::make_unique<RenderCopier>(TRY(RenderCopier::create(device, timeout_ms)));
  for (uint64_t i = 0; i < kBurst; ++i)
    process->syncobjs_.push_back(TRY(SyncObject::create(device)));
  TRY(process->make_queues());
  process->lists_ = TRY(FileLists::of(device));
  return process;
}

Status Process::make_queues() {
  doorbells_ = std::make_unique<RenderBo>(
      TRY(RenderBo::create(*device_, {"doorbells", AMDGPU_GEM_DOMAIN_DOORBELL, 0, kGpuPage})));
  TRY(doorbells_->map_for_cpu());
  words_ = std::make_unique<RenderBo>(TRY(RenderBo::create_userptr(
      *device_, kGpuPage,
      AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE)));
  TRY(words_->map_for_gpu());
  // It is destroyed, so the others have the numbers after a gap.
  UserQueue first = TRY(UserQueue::create(*device_, AMDGPU_HW_IP_DMA, *doorbells_, 1, *copier_));
  sdma_ = std::make_unique<UserQueue>(
      TRY(UserQueue::create(*device_, AMDGPU_HW_IP_DMA, *doorbells_, 5, *copier_)));
  compute_ = std::make_unique<UserQueue>(
      TRY(UserQueue::create(*device_, AMDGPU_HW_IP_COMPUTE, *doorbells_, 9, *copier_)));
  return {};
}

Status Process::submit() {
  constexpr uint64_t kValue = SharedBlocks::kValue;
  const uint64_t step = submitted_ + 1;
  const auto word = static_cast<uint32_t>(step);
  const uint64_t x = blocks_->x().va(), y = blocks_->y().va();
  SdmaStream sdma;
  sdma.poll(words_->va() + kComputeDone, Compare::kEqual, word - 1)
      .copy(y, x, SharedBlocks::kBlockSize)
      .add64(y + kValue, sdma_addend(step))
      .fence(words_->va() + kSdmaDone, word);
  sdma_->put(sdma.dwords());
  sdma_->ring();
  Pm4Stream pm4;
  pm4.wait(words_->va() + kSdmaDone, Compare::kEqual, word)
      .copy64(x + kValue, y + kValue)
      .add64(x + kValue, pm4_addend(step))
      .copy64(blocks_->history().va() + step % SharedBlocks::kHistorySlots * 8, x + kValue)
      .dma(blocks_->page().va(), x + step % (kValue / kGpuPage) * kGpuPage, kGpuPage)
      .release(words_->va() + kComputeDone, word);
  compute_->put(pm4.dwords());
  submitted_ = step;
  return compute_->signal(syncobjs_[step % kBurst]);
}

Status Process::step() {
  if (done_ == submitted_)
    for (uint64_t i = 0; i < kBurst; ++i) TRY(submit());
  const uint64_t step = done_ + 1;
  for (unsigned ms = 0; !TRY(syncobjs_[step % kBurst].is_signaled()); ++ms) {
    if (ms == timeout_ms_) return Error::of(ETIME, "step {} is not complete", step);
    pause_ms(1);
  }
  done_ = step;
  return done_ == submitted_ ? blocks_->check_step(step) : Status();
}

Status Process::check(std::vector<std::string>& problems) {
  while (done_ != submitted_) TRY(step());
  blocks_->check(done_, "the CPU", problems);
  TRY(lists_.check(*device_, problems));
  const UserQueue next =
      TRY(UserQueue::create(*device_, AMDGPU_HW_IP_DMA, *doorbells_, 1, *copier_));
  if (next.id() != 1)
    problems.push_back(amdgpu_criu::formatted("a new user queue has number {}", next.id()));
  return {};
}

void Process::announce() const {
  say("note: new numbers: " + lists_.next_numbers);
  say(amdgpu_criu::formatted("ready: pid {} user queues {} {}", getpid(), sdma_->id(),
                             compute_->id()));
}

// ENOTSUPP of the kernel, which programs do not know: amdgpu_userq_ioctl().
constexpr int kNotSupported = 524;

int main_with(const Options& options) {
  const auto paths = list_render_nodes();
  if (!paths.ok()) return skip(paths.error().message());
  if (paths->empty()) return skip("no GPU");
  auto made = Process::create(paths->front(), options.timeout_s * 1000);
  if (!made.ok() && made.error().code() == kNotSupported)
    return skip("the driver has no user queues for this GPU");
  return set_up_and_run([&] { return std::move(made); },
                        [&](std::unique_ptr<Process>& process) {
                          process->announce();
                          return run_steps(*process, options);
                        });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_queues",
       "Keeps a user queue for SDMA and one for compute busy with a chain of dependent steps. The\n"
       "fence of the compute queue signals a syncobj for each step.",
       "--steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
