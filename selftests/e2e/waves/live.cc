// SPDX-License-Identifier: GPL-2.0
#include "waves/live.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/fd.h"
#include "topology/topology.h"
#include "waves/core.h"

namespace amdgpu_criu {
namespace {

// The debugger of a process, from when it is attached to it until it goes out of scope.
class Debugger {
 public:
  static Result<Debugger> attach(pid_t pid);
  Debugger(Debugger&& other) noexcept
      : kfd_(std::move(other.kfd_)),
        memory_(std::move(other.memory_)),
        runtime_(other.runtime_),
        pid_(std::exchange(other.pid_, 0)) {}
  Debugger& operator=(Debugger&&) = delete;
  ~Debugger();

  Result<std::vector<kfd_dbg_device_info_entry>> gpus() const;
  Result<std::vector<kfd_queue_snapshot_entry>> queues() const;
  bool ttmp_setup() const { return runtime_.ttmp_setup; }
  Status suspend(uint32_t queue) const;
  Status resume(uint32_t queue) const;
  Status read(uint64_t address, std::span<std::byte> to) const;

 private:
  Debugger(Fd kfd, Fd memory, pid_t pid)
      : kfd_(std::move(kfd)), memory_(std::move(memory)), pid_(pid) {}
  Result<int> ask(uint32_t operation, kfd_ioctl_dbg_trap_args& args, const char* what) const;

  Fd kfd_, memory_;
  kfd_runtime_info runtime_ = {};
  pid_t pid_;
};

// Returns what the ioctl does: of some operations a number of queues.
Result<int> Debugger::ask(uint32_t operation, kfd_ioctl_dbg_trap_args& args,
                          const char* what) const {
  args.pid = static_cast<uint32_t>(pid_);
  args.op = operation;
  const int result = ioctl(kfd_.get(), AMDKFD_IOC_DBG_TRAP, &args);
  if (result < 0) return Error::system("{} of process {}", what, pid_);
  return result;
}

Result<Debugger> Debugger::attach(pid_t pid) {
  Fd kfd = TRY(Fd::open("/dev/kfd", O_RDWR));
  Fd memory = TRY(Fd::open(formatted("/proc/{}/mem", pid).c_str(), O_RDONLY));
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0)
    return Error::system("cannot trace process {}", pid);
  Debugger debugger(std::move(kfd), std::move(memory), pid);
  // Where the driver would report exceptions to: nobody reads it.
  char name[] = "/tmp/saved-waves-XXXXXX";
  const Fd events(mkstemp(name));
  unlink(name);
  kfd_runtime_info& runtime = debugger.runtime_;
  kfd_ioctl_dbg_trap_args args = {};
  args.enable.rinfo_ptr = reinterpret_cast<uintptr_t>(&runtime);
  args.enable.rinfo_size = sizeof(runtime);
  args.enable.dbg_fd = static_cast<uint32_t>(events.get());
  TRY(debugger.ask(KFD_IOC_DBG_TRAP_ENABLE, args, "attaching a debugger to the GPU queues"));
  if (runtime.runtime_state != DEBUG_RUNTIME_STATE_ENABLED)
    return Error::of(EPERM, "the driver forbids a debugger in process {}: runtime state {}", pid,
                     runtime.runtime_state);
  return debugger;
}

// The end of the tracer detaches it.
Debugger::~Debugger() {
  kfd_ioctl_dbg_trap_args args = {};
  if (pid_) (void)ask(KFD_IOC_DBG_TRAP_DISABLE, args, "detaching the debugger");
}

Result<std::vector<kfd_dbg_device_info_entry>> Debugger::gpus() const {
  constexpr uint32_t kMostGpus = 64;
  std::vector<kfd_dbg_device_info_entry> entries(kMostGpus);
  kfd_ioctl_dbg_trap_args args = {};
  args.device_snapshot.snapshot_buf_ptr = reinterpret_cast<uintptr_t>(entries.data());
  args.device_snapshot.num_devices = kMostGpus;
  args.device_snapshot.entry_size = sizeof(entries[0]);
  TRY(ask(KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, args, "listing GPUs"));
  entries.resize(std::min(args.device_snapshot.num_devices, kMostGpus));
  return entries;
}

// A debugger has to know a queue before it may suspend it.
Result<std::vector<kfd_queue_snapshot_entry>> Debugger::queues() const {
  constexpr uint32_t kMostQueues = 256;
  std::vector<kfd_queue_snapshot_entry> entries(kMostQueues);
  kfd_ioctl_dbg_trap_args args = {};
  args.queue_snapshot.exception_mask = KFD_EC_MASK(EC_QUEUE_NEW);
  args.queue_snapshot.snapshot_buf_ptr = reinterpret_cast<uintptr_t>(entries.data());
  args.queue_snapshot.num_queues = kMostQueues;
  args.queue_snapshot.entry_size = sizeof(entries[0]);
  TRY(ask(KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, args, "listing queues"));
  entries.resize(std::min(args.queue_snapshot.num_queues, kMostQueues));
  return entries;
}

Status Debugger::suspend(uint32_t queue) const {
  kfd_ioctl_dbg_trap_args args = {};
  args.suspend_queues.queue_array_ptr = reinterpret_cast<uintptr_t>(&queue);
  args.suspend_queues.num_queues = 1;
  if (TRY(ask(KFD_IOC_DBG_TRAP_SUSPEND_QUEUES, args, "suspending a queue")) != 1)
    return Error::of(EBUSY, "the queue is not suspended: {:#x}", queue);
  return {};
}

Status Debugger::resume(uint32_t queue) const {
  kfd_ioctl_dbg_trap_args args = {};
  args.resume_queues.queue_array_ptr = reinterpret_cast<uintptr_t>(&queue);
  args.resume_queues.num_queues = 1;
  if (TRY(ask(KFD_IOC_DBG_TRAP_RESUME_QUEUES, args, "resuming a queue")) != 1)
    return Error::of(EBUSY, "the queue is not resumed: {:#x}", queue);
  return {};
}

Status Debugger::read(uint64_t address, std::span<std::byte> to) const {
  if (pread(memory_.get(), to.data(), to.size(), static_cast<off_t>(address)) !=
      static_cast<ssize_t>(to.size()))
    return Error::system("cannot read {} bytes at {:#x} of process {}", to.size(), address, pid_);
  return {};
}

// Of a GPU. Each has a save area.
unsigned xccs_of(const std::vector<topology::Gpu>& gpus, uint32_t gpu_id) {
  const auto gpu = std::ranges::find(gpus, gpu_id, &topology::Gpu::gpu_id);
  if (gpu == gpus.end()) return 1;
  return static_cast<unsigned>(std::max<uint64_t>(gpu->property("num_xcc"), 1));
}

Generation generation_of(const std::vector<topology::Gpu>& gpus, uint32_t gpu_id) {
  constexpr uint64_t kGfx11 = 110000;
  const auto gpu = std::ranges::find(gpus, gpu_id, &topology::Gpu::gpu_id);
  return gpu != gpus.end() && gpu->property("gfx_target_version") >= kGfx11 ? Generation::kGfx11
                                                                            : Generation::kGfx9;
}

// On GFX9, the driver has copied the control stack behind the header of the save area.
Result<SaveArea> read_area(const Debugger& debugger, uint64_t base) {
  SaveArea area = {.base = base, .header = {}, .stack = {}};
  TRY(debugger.read(base, std::as_writable_bytes(std::span(&area.header, 1))));
  const auto& state = area.header.wave_state;
  area.stack.resize(state.control_stack_size / sizeof(uint32_t));
  TRY(debugger.read(base + state.control_stack_offset,
                    std::as_writable_bytes(std::span(area.stack))));
  return area;
}

Result<size_t> read_queue(const Debugger& debugger, const std::vector<topology::Gpu>& gpus,
                          const kfd_queue_snapshot_entry& entry, bool registers, Core& core) {
  const ReadMemory read = [&](uint64_t address, std::span<std::byte> to) {
    return debugger.read(address, to);
  };
  size_t waves = 0;
  TRY(core.add(entry, read));
  for (unsigned xcc = 0; xcc < xccs_of(gpus, entry.gpu_id); ++xcc) {
    const SaveArea area =
        TRY(read_area(debugger, entry.ctx_save_restore_address +
                                    uint64_t{xcc} * entry.ctx_save_restore_area_size));
    const SavedQueue queue =
        TRY(decode_area(area, entry.queue_id, xcc, generation_of(gpus, entry.gpu_id)));
    print_summary(queue);
    if (registers) TRY(print_registers(queue, read));
    TRY(core.add(area, read));
    waves += queue.waves.size();
  }
  return waves;
}

}  // namespace

Result<size_t> read_live(pid_t pid, bool registers, const std::string& core_path) {
  const auto gpus = TRY(topology::read_gpus());
  const Debugger debugger = TRY(Debugger::attach(pid));
  Core core;
  core.set_ttmp_setup(debugger.ttmp_setup());
  for (const kfd_dbg_device_info_entry& gpu : TRY(debugger.gpus())) core.add(gpu);
  size_t waves = 0;
  for (const kfd_queue_snapshot_entry& entry : TRY(debugger.queues())) {
    if (entry.queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL &&
        entry.queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE)
      continue;
    TRY(debugger.suspend(entry.queue_id));
    waves += TRY(read_queue(debugger, gpus, entry, registers, core));
    TRY(debugger.resume(entry.queue_id));
  }
  if (!core_path.empty()) TRY(core.write(core_path));
  return waves;
}

}  // namespace amdgpu_criu
