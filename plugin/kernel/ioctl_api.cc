// SPDX-License-Identifier: GPL-2.0
// The only file that issues the ioctl.
#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/no_destroy.h"
#include "kernel/kernel_api.h"

namespace amdgpu_criu::kernel {
namespace {

constexpr int kMaxSizeRetries = 8;
constexpr int kMaxRepeats = 3;
constexpr std::chrono::milliseconds kBetweenRepeats{200};
// The kernel's reasons are not longer.
constexpr size_t kReasonSize = 256;
// Only the metadata of a BO makes the state of an object vary in size, and it is small.
constexpr size_t kFirstExportedBlob = 4096;
constexpr uint64_t kMaxExportedBlob = 16u << 20;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

const char* name_of(amdgpu_criu_op op) {
  switch (op) {
    case AMDGPU_CRIU_OP_QUERY:
      return "QUERY";
    case AMDGPU_CRIU_OP_SESSION:
      return "SESSION";
    case AMDGPU_CRIU_OP_PROCESS_INFO:
      return "PROCESS_INFO";
    case AMDGPU_CRIU_OP_CHECKPOINT:
      return "CHECKPOINT";
    case AMDGPU_CRIU_OP_UNPAUSE:
      return "UNPAUSE";
    case AMDGPU_CRIU_OP_RESTORE:
      return "RESTORE";
    case AMDGPU_CRIU_OP_RESUME:
      return "RESUME";
    case AMDGPU_CRIU_OP_DMABUF:
      return "DMABUF";
    case AMDGPU_CRIU_OP_EXPORTED:
      return "EXPORTED";
    case AMDGPU_CRIU_OP_OUTSIDE:
      return "OUTSIDE";
    case AMDGPU_CRIU_OP_EVICT:
      return "EVICT";
  }
  return "?";
}

// The remedy; empty if the errno is sufficient.
const char* advice_for(int code) {
  switch (code) {
    case ENOTTY:
      return " (this kernel's amdgpu has no checkpoint/restore interface)";
    case EPERM:
      return " (CAP_CHECKPOINT_RESTORE is needed in the initial user namespace; to restore in "
             "another one, CRIU 4.2 or later)";
    case EOPNOTSUPP:
      return " (this state cannot be carried)";
    case EBADMSG:
      return " (the kernel found its saved state damaged)";
    case ENODEV:
      return " (a GPU does not exist or does not fit what was saved on it)";
    case EBUSY:
      return " (another checkpoint of this process is in progress, or others use what is needed)";
    case ETIME:
      return " (submitted GPU work does not complete)";
    default:
      return "";
  }
}

// No destructor: some of CRIU's children end with exit().
NoDestroy<CallFilter> call_filter;

template <typename T>
Status call(Node node, amdgpu_criu_op op, T& argument, const Interrupted& interrupted = {}) {
  if (*call_filter) TRY((*call_filter)(name_of(op)));
  std::array<char, kReasonSize> reason{};
  amdgpu_criu_ioctl envelope{.op = op,
                             .size = sizeof(T),
                             .arg = address_of(&argument),
                             .reason = address_of(reason.data()),
                             .reason_size = reason.size(),
                             .pad = 0};
  const unsigned long number =
      node.kind == Node::Kind::kKfd ? AMDKFD_IOC_AMDGPU_CRIU : DRM_IOCTL_AMDGPU_CRIU;
  int result;
  while ((result = ioctl(node.fd, number, &envelope)) < 0 && errno == EINTR)
    if (interrupted) TRY(interrupted());
  if (result == 0) return {};
  const int code = errno;
  if (reason.front())
    return Error::of(code, "{} (kernel operation {} failed: {})", reason.data(), name_of(op),
                     strerror(code));
  return Error::of(code, "kernel operation {} failed: {}{}", name_of(op), strerror(code),
                   advice_for(code));
}

// Repeats an operation that the kernel undoes, or continues, after errors that pass: others hold
// locks or memory, or the memory of the process changes.
template <typename Operation>
Status repeated(std::initializer_list<int> passing, Operation&& operation) {
  Status first = operation();
  for (int i = 0; !first.ok() && i < kMaxRepeats; i++) {
    if (!std::ranges::count(passing, first.error().code())) break;
    std::this_thread::sleep_for(kBetweenRepeats);
    Status again = operation();
    // RESUME was complete, except for that error.
    if (!again.ok() && again.error().code() == EBADFD) break;
    first = std::move(again);
  }
  return first;
}

// One attempt at CHECKPOINT. Its tables are only kept on success; on ENOSPC the kernel has
// written the sizes it needs into `sizes`.
Result<Checkpoint> checkpoint_once(Node node, int session, ProcessInfo& sizes) {
  std::vector<amdgpu_criu_device> devices(sizes.num_devices);
  Checkpoint result;
  result.bos.resize(sizes.num_bos);
  result.blob.resize(sizes.blob_size);
  amdgpu_criu_state state{};
  state.session_fd = session;
  state.devices = address_of(devices.data());
  state.bos = address_of(result.bos.data());
  state.blob = address_of(result.blob.data());
  state.blob_size = result.blob.size();
  state.num_devices = devices.size();
  state.num_bos = result.bos.size();
  state.device_stride = sizeof(amdgpu_criu_device);
  state.bo_stride = sizeof(amdgpu_criu_bo);
  Status status = call(node, AMDGPU_CRIU_OP_CHECKPOINT, state);
  if (!status.ok()) {
    sizes.num_devices = state.num_devices;
    sizes.num_bos = state.num_bos;
    sizes.blob_size = state.blob_size;
    return std::move(status).error();
  }
  // The kernel has created these descriptors: the caller owns them even after an error.
  for (const amdgpu_criu_device& device :
       std::span(devices).first(std::min<size_t>(state.num_devices, devices.size())))
    result.devices.push_back({device.gpu_id, device.actual_gpu_id, Fd(device.drm_fd)});
  if (state.num_devices > devices.size() || state.num_bos > result.bos.size() ||
      state.blob_size > result.blob.size())
    return Error(EPROTO, "kernel operation CHECKPOINT reports more bytes than there was room for");
  result.bos.resize(state.num_bos);
  result.blob.resize(state.blob_size);
  return result;
}

amdgpu_criu_exported exported_argument(int session, const Exported& exported) {
  amdgpu_criu_exported argument{};
  argument.session_fd = session;
  argument.bo_stride = sizeof(Bo);
  argument.bo = address_of(&exported.bo);
  argument.blob = address_of(exported.blob.data());
  argument.blob_size = exported.blob.size();
  return argument;
}

Result<ProcessInfo> info_of(Node node, int session, pid_t process, uint32_t flags,
                            const Interrupted& interrupted = {}) {
  amdgpu_criu_process_info argument{};
  argument.session_fd = session;
  argument.flags = flags;
  argument.pid = node.kind == Node::Kind::kRender ? process : 0;
  TRY(call(node, AMDGPU_CRIU_OP_PROCESS_INFO, argument, interrupted));
  return ProcessInfo{.pid = argument.pid,
                     .num_devices = argument.num_devices,
                     .num_bos = argument.num_bos,
                     .num_queues = argument.num_queues,
                     .num_events = argument.num_events,
                     .num_svm_ranges = argument.num_svm_ranges,
                     .blob_size = argument.blob_size};
}

class IoctlApi : public Api {
 public:
  Result<Query> query(Node node) override {
    amdgpu_criu_query argument{};
    TRY(call(node, AMDGPU_CRIU_OP_QUERY, argument));
    Query result;
    result.records.resize(argument.num_records);
    argument.records = address_of(result.records.data());
    argument.record_stride = sizeof(amdgpu_criu_record_info);
    if (!result.records.empty()) TRY(call(node, AMDGPU_CRIU_OP_QUERY, argument));
    result.abi_min = argument.abi_min;
    result.abi_max = argument.abi_max;
    result.features = argument.features;
    result.blob_format = argument.blob_format;
    return result;
  }

  Result<uint64_t> available_memory(const Fd& kfd, uint32_t gpu_id) override {
    kfd_ioctl_get_available_memory_args argument{};
    argument.gpu_id = gpu_id;
    if (TEMP_FAILURE_RETRY(ioctl(kfd.get(), AMDKFD_IOC_AVAILABLE_MEMORY, &argument)) != 0)
      return Error::system("cannot query the free memory of GPU {:#x}", gpu_id);
    return static_cast<uint64_t>(argument.available);
  }

  Result<Fd> create_session(Node node, SessionKind kind) override {
    amdgpu_criu_session argument{};
    argument.kind = static_cast<uint32_t>(kind);
    TRY(call(node, AMDGPU_CRIU_OP_SESSION, argument));
    return Fd(argument.fd);
  }

  Result<ProcessInfo> process_info(Node node, int session, pid_t process,
                                   const Interrupted& interrupted) override {
    return info_of(node, session, process, 0, interrupted);
  }

  Result<ProcessInfo> live_info(Node node, int session, pid_t process) override {
    return info_of(node, session, process, AMDGPU_CRIU_PROCESS_INFO_LIVE);
  }

  Result<Checkpoint> checkpoint(Node node, int session, const ProcessInfo& sizes) override {
    ProcessInfo room = sizes;
    for (int attempt = 0;; attempt++) {
      Result<Checkpoint> result = checkpoint_once(node, session, room);
      if (result.ok() || result.error().code() != ENOSPC || attempt == kMaxSizeRetries)
        return result;
    }
  }

  Status unpause(Node node, int session) override {
    amdgpu_criu_unpause argument{};
    argument.session_fd = session;
    return call(node, AMDGPU_CRIU_OP_UNPAUSE, argument);
  }

  Status restore(Node node, int session, std::span<const RestoreDevice> devices, std::span<Bo> bos,
                 std::span<const std::byte> blob) override {
    std::vector<amdgpu_criu_device> table;
    for (const RestoreDevice& device : devices)
      table.push_back({device.gpu_id, device.actual_gpu_id, device.drm_fd, 0});
    amdgpu_criu_state state{};
    state.session_fd = session;
    state.devices = address_of(table.data());
    state.bos = address_of(bos.data());
    state.blob = address_of(blob.data());
    state.blob_size = blob.size();
    state.num_devices = table.size();
    state.num_bos = bos.size();
    state.device_stride = sizeof(amdgpu_criu_device);
    state.bo_stride = sizeof(amdgpu_criu_bo);
    // A process that ends gives back its SDMA queues last. TTM reports locks of others as ENOMEM.
    return repeated({EBUSY, ENOMEM}, [&] { return call(node, AMDGPU_CRIU_OP_RESTORE, state); });
  }

  Status resume(Node node, int session, pid_t pid) override {
    amdgpu_criu_resume argument{};
    argument.session_fd = session;
    argument.pid = pid;
    // Each attempt waits for half a minute.
    return repeated({EAGAIN, ENOMEM, ETIME},
                    [&] { return call(node, AMDGPU_CRIU_OP_RESUME, argument); });
  }

  Result<Fd> dmabuf(Node node, int session, uint64_t object_id) override {
    amdgpu_criu_dmabuf argument{};
    argument.session_fd = session;
    argument.object_id = object_id;
    argument.fd = -1;
    TRY(call(node, AMDGPU_CRIU_OP_DMABUF, argument));
    return Fd(argument.fd);
  }

  Result<Exported> save_exported(Node node, int session, int dmabuf) override {
    Exported result;
    result.blob.resize(kFirstExportedBlob);
    amdgpu_criu_exported argument{};
    for (int attempt = 0;; attempt++) {
      argument = exported_argument(session, result);
      argument.fd = dmabuf;
      const Status status = call(node, AMDGPU_CRIU_OP_EXPORTED, argument);
      if (status.ok()) break;
      if (status.error().code() != ENOSPC || attempt == kMaxSizeRetries ||
          argument.blob_size > kMaxExportedBlob)
        return status.error();
      result.blob.resize(argument.blob_size);
    }
    if (argument.blob_size > result.blob.size())
      return Error(EPROTO, "kernel operation EXPORTED reports more bytes than there was room for");
    result.blob.resize(argument.blob_size);
    return result;
  }

  Result<Fd> restore_exported(Node node, int session, const Exported& exported) override {
    amdgpu_criu_exported argument = exported_argument(session, exported);
    argument.fd = -1;
    TRY(call(node, AMDGPU_CRIU_OP_EXPORTED, argument));
    return Fd(argument.fd);
  }

  Result<Outside> outside(Node node, int session) override {
    amdgpu_criu_outside argument{};
    argument.session_fd = session;
    TRY(call(node, AMDGPU_CRIU_OP_OUTSIDE, argument));
    return Outside{.num_bos = argument.num_bos,
                   .num_syncobjs = argument.num_syncobjs,
                   .pid = argument.pid,
                   .paused_pid = argument.paused_pid,
                   .handle = argument.handle,
                   .size = argument.size};
  }

  Result<Evicted> evict(Node node, int session) override {
    amdgpu_criu_evict argument{};
    argument.session_fd = session;
    TRY(call(node, AMDGPU_CRIU_OP_EVICT, argument));
    return Evicted{.bytes = argument.bytes, .kept = argument.kept};
  }
};

}  // namespace

void set_call_filter(CallFilter filter) { *call_filter = std::move(filter); }
std::unique_ptr<Api> make_ioctl_api() { return std::make_unique<IoctlApi>(); }

}  // namespace amdgpu_criu::kernel
