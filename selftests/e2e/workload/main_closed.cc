// SPDX-License-Identifier: GPL-2.0
// kfd_closed: a process that has GPU memory and a queue, but no open /dev/kfd: KFD keeps its state,
// and the file of the render node, through which the process has allocated memory, too.
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <set>

#include "render/device.h"
#include "workload/pattern.h"
#include "workload/queue_sdma.h"
#include "workload/run.h"
#include "workload/start.h"

namespace e2e {
namespace {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBytes = 256 << 10;

std::set<std::string> descriptors() {
  std::set<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    result.insert(entry.path().filename().string() + " " +
                  std::filesystem::read_symlink(entry.path()).string());
  return result;
}

class Closed {
 public:
  static Result<std::unique_ptr<Closed>> create(Kfd kfd, std::span<const GpuNode> nodes,
                                                const Options& options);
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  // What it has is freed through a file.
  ~Closed() { (void)open_again(); }

  Status step();
  uint64_t done() const { return done_; }
  Status check(std::vector<std::string>& problems);
  void announce() const;

 private:
  explicit Closed(const Options& options) : options_(options) {}
  Status set_up(const GpuNode& node);
  Status use_queue();
  Status add_hidden();
  Status open_again();
  // What was moved from has no open file.
  void close() { const Kfd closed = std::move(*kfd_); }
  Status copy(uint64_t to, uint64_t from);
  uint64_t hidden_va() const { return reinterpret_cast<uint64_t>(hidden_.data()); }
  Status check_memory(std::vector<std::string>& problems);

  Options options_;
  Pattern pattern_{42};
  std::unique_ptr<Kfd> kfd_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<Doorbells> doorbells_;
  std::unique_ptr<Bo> memory_;  // VRAM without a CPU mapping
  // With --queues 1.
  Mapping hidden_;              // addresses of VRAM that the CPU cannot map, of the render node
  std::unique_ptr<Bo> buffer_;  // of its size, and a page
  std::unique_ptr<SdmaQueue> queue_;
  std::set<std::string> descriptors_;
  uint64_t done_ = 0;
};

Status Closed::set_up(const GpuNode& node) {
  gpu_ = on_heap(TRY(Gpu::open(*kfd_, node)));
  memory_ = on_heap(TRY(Bo::create(*kfd_, *gpu_, {}, {Domain::kVram, kBytes})));
  pattern_.fill(memory_->bytes());
  if (mmap(memory_->bytes().data(), kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
           0) == MAP_FAILED)
    return Error::system("cannot remove a mapping");
  if (options_.queues > 0) TRY(use_queue());
  if (!options_.keep_render) const Gpu closed = std::move(*gpu_);
  close();
  descriptors_ = descriptors();
  return {};
}

Status Closed::use_queue() {
  doorbells_ = std::make_unique<Doorbells>();
  queue_ = on_heap(TRY(SdmaQueue::create(*kfd_, *gpu_, *doorbells_)));
  TRY(add_hidden());
  buffer_ = on_heap(TRY(Bo::create(*kfd_, *gpu_, {}, {Domain::kGtt, kBytes + kPage, true, true})));
  pattern_.fill(buffer_->bytes().first(kBytes));
  return copy(hidden_va(), buffer_->va());
}

// Handles stay open as long as the file. With that of memory_, KFD and the file share a BO.
Status Closed::add_hidden() {
  const RenderDevice device = TRY(RenderDevice::adopt(
      Fd(fcntl(gpu_->render_fd(), F_DUPFD_CLOEXEC, 0)), "the file that KFD took the VM of"));
  const Fd dmabuf = TRY(kfd_->export_dmabuf(memory_->handle()));
  drm_prime_handle imported = {};
  imported.fd = dmabuf.get();
  TRY(device.call(DRM_IOCTL_PRIME_FD_TO_HANDLE, &imported, "cannot import a BO of KFD"));
  drm_amdgpu_gem_create create = {};
  create.in = {kBytes, kPage, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS};
  TRY(device.command(DRM_AMDGPU_GEM_CREATE, &create, sizeof(create), "cannot create a BO"));
  hidden_ = TRY(Mapping::map(kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE));
  const uint32_t handle = create.out.handle;
  TRY(device.change_map(handle, AMDGPU_VA_OP_MAP, hidden_va(), 0, kBytes));
  drm_amdgpu_gem_wait_idle wait = {};
  wait.in = {handle, 0, AMDGPU_TIMEOUT_INFINITE};
  return device.command(DRM_AMDGPU_GEM_WAIT_IDLE, &wait, sizeof(wait), "cannot wait for a BO");
}

Result<std::unique_ptr<Closed>> Closed::create(Kfd kfd, std::span<const GpuNode> nodes,
                                               const Options& options) {
  std::unique_ptr<Closed> process(new Closed(options));
  process->kfd_ = on_heap(std::move(kfd));
  TRY(process->set_up(nodes[0]));
  return process;
}

Status Closed::open_again() {
  *kfd_ = TRY(Kfd::open());
  return {};
}

// With the queue alone: no file is open.
Status Closed::copy(uint64_t to, uint64_t from) {
  const std::atomic_ref cell(*buffer_->at<uint32_t>(kBytes));
  cell = 0;
  SdmaStream stream;
  stream.copy(to, from, kBytes).fence(buffer_->va() + kBytes, 1);
  TRY(queue_->submit(std::move(stream)));
  for (unsigned ms = 0; cell.load() != 1; ++ms) {
    if (ms > options_.timeout_s * 1000) return Error(ETIMEDOUT, "an SDMA copy is not complete");
    pause_ms(1);
  }
  return {};
}

Status Closed::step() {
  if (queue_) {
    std::ranges::fill(buffer_->bytes().first(kBytes), std::byte{0});
    TRY(copy(buffer_->va(), hidden_va()));
    if (pattern_.check(buffer_->bytes().first(kBytes)))
      return Error(EIO, "memory that the queue has copied is wrong");
  }
  ++done_;
  return {};
}

// KFD finds by its handle what it has kept.
Status Closed::check_memory(std::vector<std::string>& problems) {
  const uint32_t gpu = gpu_->id();
  TRY(kfd_->unmap(memory_->handle(), {&gpu, 1}));
  TRY(kfd_->map(memory_->handle(), {&gpu, 1}));
  const auto dmabuf = TRY(kfd_->export_dmabuf(memory_->handle()));
  const Mapping mapping = TRY(Mapping::map(kBytes, PROT_READ, MAP_SHARED, dmabuf.get()));
  if (const auto damage = pattern_.check(mapping.bytes()))
    problems.push_back(amdgpu_criu::formatted("{} bytes of VRAM are wrong, the first at {:#x}",
                                              damage->bytes, damage->first_offset));
  return {};
}

Status Closed::check(std::vector<std::string>& problems) {
  if (descriptors() != descriptors_)
    for (const std::string& one : descriptors()) problems.push_back("now open: " + one);
  TRY(open_again());
  const Status status = check_memory(problems);
  close();
  return status;
}

void Closed::announce() const {
  say(amdgpu_criu::formatted("ready: pid {} bos {} queues {} descriptors {}", getpid(),
                             queue_ ? 5 : 1, queue_ ? 1 : 0, descriptors_.size()));
}

bool run(std::unique_ptr<Closed>& process, const Options& options) {
  process->announce();
  return run_steps(*process, options);
}

}  // namespace
}  // namespace e2e

int main(int argc, char** argv) {
  const e2e::ParsedOptions parsed = e2e::parse_options(
      {"kfd_closed", "Has memory of a GPU and an SDMA queue, but has closed /dev/kfd.",
       "--queues --keep-render --steps --interval --timeout"},
      argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  return e2e::main_on_gpus(parsed.options, e2e::Closed::create, e2e::run);
}
