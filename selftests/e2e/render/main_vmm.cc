// SPDX-License-Identifier: GPL-2.0
// render_vmm: memory as ROCm's virtual-memory API creates it. One VM, used by KFD and by a file of
// a render node:
//
//   X     allocated by KFD, exported, imported by the render node and mapped by GEM_VA only
//   Y     allocated by the render node, exported, imported by KFD and mapped by KFD; and a second
//         time by GEM_VA
//   both  allocated and mapped by KFD; exported, imported and mapped by GEM_VA as well
//   freed mapped for the CPU without access, and then freed, as ROCr leaves memory until its
//         addresses are freed
//
// Queues of KFD work on them as in gpu_chain: SDMA copies X to Y and adds, PM4 copies the value
// back and adds.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "render/device.h"
#include "render/numbers.h"
#include "workload/events.h"
#include "workload/kfd.h"
#include "workload/pattern.h"
#include "workload/queue_pm4.h"
#include "workload/queue_sdma.h"
#include "workload/run.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr uint64_t kBlockSize = 256 << 10;
constexpr uint64_t kValue = 36 << 10;
constexpr uint64_t kSeed = 0x7c3a;
constexpr uint64_t kAhead = 4;

// BO "cells".
constexpr uint64_t kGate = 0;
constexpr uint64_t kSdmaFence = 64;
constexpr uint64_t kPm4Fence = 128;
constexpr uint64_t kSeenY = 192;     // Y's value, read at its other address
constexpr uint64_t kSeenBoth = 256;  // the step, written at one address and read at the other

template <typename T>
T load(const void* address) {
  return std::atomic_ref(*static_cast<T*>(const_cast<void*>(address)))
      .load(std::memory_order_acquire);
}

// Addresses that the process does not use otherwise.
Result<Mapping> reserve(uint64_t size) {
  return Mapping::map(size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

uint64_t address_of(const Mapping& range) { return reinterpret_cast<uint64_t>(range.data()); }

struct Block {
  Mapping kfd_range, gem_range;  // the mappings by KFD and by GEM_VA
  uint64_t kfd_handle = 0;
  std::unique_ptr<RenderBo> bo;
  uint64_t kfd_va() const { return address_of(kfd_range); }
  uint64_t gem_va() const { return address_of(gem_range); }
};

class Process {
 public:
  static Result<std::unique_ptr<Process>> create(const GpuNode& node, const Options& options);
  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const;

 private:
  Process(Kfd kfd, unsigned timeout_ms) : kfd_(std::move(kfd)), timeout_ms_(timeout_ms) {}
  Status set_up(const GpuNode& node);
  Result<Block> from_kfd(bool mapped_by_kfd);
  Result<Block> from_render_node();
  Status map_by_gem(Block& block);
  Status add_freed();
  Status submit(uint64_t step);
  Status check_step(uint64_t step) const;
  Status check_freed(std::vector<std::string>& problems) const;
  void check_block(const Block& block, const char* name, uint64_t value,
                   std::vector<std::string>& problems) const;

  Kfd kfd_;
  unsigned timeout_ms_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<RenderDevice> device_;
  Block x_, y_, both_;
  Mapping freed_;
  Doorbells doorbells_;
  std::unique_ptr<EventPage> events_;
  std::unique_ptr<Bo> cells_;
  std::unique_ptr<SdmaQueue> sdma_;
  std::unique_ptr<Pm4Queue> pm4_;
  std::unique_ptr<Event> sdma_event_, pm4_event_;
  FileLists lists_;
  uint64_t done_ = 0;
};

Status Process::map_by_gem(Block& block) {
  block.gem_range = TRY(reserve(kBlockSize));
  TRY(device_->change_map(block.bo->handle(), AMDGPU_VA_OP_MAP, block.gem_va(), 0, kBlockSize));
  return block.bo->map_for_cpu();
}

Result<Block> Process::from_kfd(bool mapped_by_kfd) {
  Block block;
  block.kfd_range = TRY(reserve(kBlockSize));
  block.kfd_handle =
      TRY(kfd_.allocate({gpu_->id(), Domain::kVram, block.kfd_va(), kBlockSize})).handle;
  const uint32_t gpu_id = gpu_->id();
  if (mapped_by_kfd) TRY(kfd_.map(block.kfd_handle, {&gpu_id, 1}));
  const Fd dmabuf = TRY(kfd_.export_dmabuf(block.kfd_handle));
  block.bo = std::make_unique<RenderBo>(TRY(RenderBo::import(*device_, dmabuf)));
  TRY(map_by_gem(block));
  return block;
}

Result<Block> Process::from_render_node() {
  Block block;
  block.bo = std::make_unique<RenderBo>(TRY(RenderBo::create(
      *device_, {"Y", AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, kBlockSize})));
  const Fd dmabuf = TRY(block.bo->export_dmabuf());
  block.kfd_range = TRY(reserve(kBlockSize));
  block.kfd_handle = TRY(kfd_.import_dmabuf(dmabuf, gpu_->id(), block.kfd_va()));
  const uint32_t gpu_id = gpu_->id();
  TRY(kfd_.map(block.kfd_handle, {&gpu_id, 1}));
  TRY(map_by_gem(block));
  return block;
}

Status Process::add_freed() {
  RenderBo bo =
      TRY(RenderBo::create(*device_, {"freed", AMDGPU_GEM_DOMAIN_VRAM,
                                      AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, kBlockSize}));
  TRY(bo.map_for_cpu());
  Pattern(kSeed).fill(bo.bytes());
  freed_ = TRY(Mapping::map(kBlockSize, PROT_NONE, MAP_SHARED, device_->fd(),
                            static_cast<off_t>(TRY(bo.mmap_offset()))));
  return {};
}

Status Process::set_up(const GpuNode& node) {
  gpu_ = std::make_unique<Gpu>(TRY(Gpu::open(kfd_, node)));
  Fd same_file(fcntl(gpu_->render_fd(), F_DUPFD_CLOEXEC, 0));
  device_ = std::make_unique<RenderDevice>(
      TRY(RenderDevice::adopt(std::move(same_file), "the file that KFD took the VM of")));
  const Gpu* gpu = gpu_.get();
  events_ = std::make_unique<EventPage>(TRY(EventPage::create(kfd_, *gpu, {&gpu, 1})));
  cells_ = std::make_unique<Bo>(TRY(Bo::create(kfd_, *gpu, {}, {Domain::kGtt, 4096, true, true})));
  x_ = TRY(from_kfd(false));
  y_ = TRY(from_render_node());
  both_ = TRY(from_kfd(true));
  TRY(add_freed());
  sdma_ = std::make_unique<SdmaQueue>(TRY(SdmaQueue::create(kfd_, *gpu, doorbells_)));
  pm4_ = std::make_unique<Pm4Queue>(TRY(Pm4Queue::create(kfd_, *gpu, doorbells_)));
  sdma_event_ = std::make_unique<Event>(TRY(events_->create_event()));
  pm4_event_ = std::make_unique<Event>(TRY(events_->create_event()));

  memset(cells_->bytes().data(), 0, cells_->size());
  for (const Block* block : {&x_, &y_, &both_}) Pattern(kSeed).fill(block->bo->bytes());
  *x_.bo->at<uint64_t>(kValue) = value_at(0);
  lists_ = TRY(FileLists::of(*device_));
  for (uint64_t step = 1; step <= kAhead; ++step) TRY(submit(step));
  return {};
}

Result<std::unique_ptr<Process>> Process::create(const GpuNode& node, const Options& options) {
  std::unique_ptr<Process> process(new Process(TRY(Kfd::open()), options.timeout_s * 1000));
  TRY(process->set_up(node));
  return process;
}

Status Process::submit(uint64_t step) {
  const uint64_t cells = cells_->va();
  const auto step32 = static_cast<uint32_t>(step);
  SdmaStream sdma;
  sdma.poll(cells + kGate, Compare::kGreaterOrEqual, step32)
      .poll(cells + kPm4Fence, Compare::kEqual, step32 - 1)
      .copy(y_.kfd_va(), x_.gem_va(), kBlockSize)
      .add64(y_.kfd_va() + kValue, sdma_addend(step))
      .fence(cells + kSdmaFence, step32)
      .fence(sdma_event_->mailbox(), sdma_event_->id())
      .trap(sdma_event_->id());
  TRY(sdma_->submit(std::move(sdma)));

  Pm4Stream pm4;
  pm4.wait(cells + kSdmaFence, Compare::kEqual, step32)
      .copy64(x_.gem_va() + kValue, y_.gem_va() + kValue)
      .add64(x_.gem_va() + kValue, pm4_addend(step))
      .copy64(cells + kSeenY, y_.gem_va() + kValue)
      .write64(both_.kfd_va() + kValue, step)
      .copy64(cells + kSeenBoth, both_.gem_va() + kValue)
      .release(cells + kPm4Fence, step32)
      .release_and_interrupt(pm4_event_->mailbox(), pm4_event_->id(), pm4_event_->id());
  return pm4_->submit(std::move(pm4));
}

Status Process::step() {
  const uint64_t step = done_ + 1;
  std::atomic_ref(*cells_->at<uint32_t>(kGate))
      .store(static_cast<uint32_t>(step), std::memory_order_release);
  const uint32_t events[] = {sdma_event_->id(), pm4_event_->id()};
  if (TRY(kfd_.wait_events(events, timeout_ms_)) == WaitResult::kTimeout)
    return Error::of(ETIMEDOUT, "step {} has no events after {} s", step, timeout_ms_ / 1000);
  TRY(check_step(step));
  done_ = step;
  return submit(step + kAhead);
}

Status Process::check_step(uint64_t step) const {
  const auto x = load<uint64_t>(x_.bo->at<uint64_t>(kValue));
  const auto y = load<uint64_t>(y_.bo->at<uint64_t>(kValue));
  const auto seen_y = load<uint64_t>(cells_->at<uint64_t>(kSeenY));
  const auto seen = load<uint64_t>(cells_->at<uint64_t>(kSeenBoth));
  const auto both = load<uint64_t>(both_.bo->at<uint64_t>(kValue));
  const uint64_t half = half_value_at(step);
  if (x == value_at(step) && y == half && seen_y == half && seen == step && both == step) return {};
  return Error::of(EBADMSG,
                   "step {} has wrong values: X {:#x} (expected {:#x}), Y {:#x} by the CPU and "
                   "{:#x} by its other address (expected {:#x}), both {} and {}",
                   step, x, value_at(step), y, seen_y, half, both, seen);
}

void Process::check_block(const Block& block, const char* name, uint64_t value,
                          std::vector<std::string>& problems) const {
  const auto bytes = block.bo->bytes();
  const Pattern pattern(kSeed);
  auto damage = pattern.check(bytes.first(kValue));
  if (!damage) damage = pattern.check(bytes.subspan(kValue + 8), kValue + 8);
  if (damage)
    problems.push_back(amdgpu_criu::formatted("block {}: {} bytes wrong from {:#x}", name,
                                              damage->bytes, damage->first_offset));
  const auto found = load<uint64_t>(block.bo->at<uint64_t>(kValue));
  if (found != value)
    problems.push_back(
        amdgpu_criu::formatted("block {}: value {:#x}, expected {:#x}", name, found, value));
}

// If it can be read at all, it has its contents.
Status Process::check_freed(std::vector<std::string>& problems) const {
  std::byte* const data = freed_.data();
  if (mprotect(data, kBlockSize, PROT_READ) != 0)
    return Error::system("freed memory is not mapped any more");
  const Fd memory = TRY(Fd::open("/proc/self/mem", O_RDONLY));
  std::vector<std::byte> bytes(kBlockSize);
  const ssize_t count = pread(memory.get(), bytes.data(), bytes.size(), address_of(freed_));
  if (count > 0 && Pattern(kSeed).check(std::span(bytes).first(count)))
    problems.push_back("freed memory has other contents");
  if (mprotect(data, kBlockSize, PROT_NONE) != 0) return Error::system("cannot protect memory");
  return {};
}

Status Process::check(std::vector<std::string>& problems) {
  check_block(x_, "X", value_at(done_), problems);
  if (done_) {
    check_block(y_, "Y", half_value_at(done_), problems);
    check_block(both_, "both", done_, problems);
  }
  TRY(check_freed(problems));
  return lists_.check(*device_, problems);
}

void Process::announce() const {
  say(amdgpu_criu::formatted("ready: pid {} bos 3 bytes {} queues 2", getpid(), 3 * kBlockSize));
}

int main_with(const Options& options) {
  const Result<std::vector<GpuNode>> nodes = list_gpus();
  if (!nodes.ok()) return skip(nodes.error().message());
  if (nodes->empty()) return skip("no GPU");
  return set_up_and_run([&] { return Process::create(nodes->front(), options); },
                        [&](std::unique_ptr<Process>& process) {
                          process->announce();
                          return run_steps(*process, options);
                        });
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"render_vmm", "KFD queues work on memory that KFD and a render node share.",
       "--steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_with(parsed.options);
}
