// SPDX-License-Identifier: GPL-2.0
#include "render/device.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <xf86drm.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace e2e {

using amdgpu_criu::Error;
using amdgpu_criu::Fd;
using amdgpu_criu::Mapping;
using amdgpu_criu::Result;
using amdgpu_criu::Status;

namespace {

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

constexpr std::chrono::microseconds kShortestPoll{20};
constexpr std::chrono::microseconds kLongestPoll{1000};

void sleep_for(std::chrono::microseconds time) {
  const timespec span = {0, static_cast<long>(time.count()) * 1000};
  nanosleep(&span, nullptr);
}

}  // namespace

Status checked(int result, const std::string& what) {
  if (result == 0) return {};
  return Error::of(-result, "{}: {}", what, strerror(-result));
}

Result<RenderDevice> RenderDevice::open(const std::string& path) {
  return adopt(TRY(Fd::open(path.c_str(), O_RDWR)), path);
}

// Without libdrm's table of devices: two files of one render node must stay two.
Result<RenderDevice> RenderDevice::adopt(Fd fd, const std::string& path) {
  RenderDevice device;
  device.fd_ = std::move(fd);
  uint32_t major = 0, minor = 0;
  amdgpu_device_handle handle = nullptr;
  TRY(checked(amdgpu_device_initialize2(device.fd_.get(), false, &major, &minor, &handle),
              "cannot initialize " + path));
  device.device_.reset(handle);
  // libdrm works on a duplicate of its own.
  return device;
}

Status RenderDevice::command(unsigned long index, void* argument, size_t size,
                             const char* what) const {
  return checked(drmCommandWriteRead(fd(), index, argument, size), what);
}

Status RenderDevice::call(unsigned long request, void* argument, const char* what) const {
  if (drmIoctl(fd(), request, argument) != 0) return Error::system("{}", what);
  return {};
}

Status RenderDevice::change_map(uint32_t handle, uint32_t operation, uint64_t va, uint64_t offset,
                                uint64_t size, uint64_t flags) const {
  drm_amdgpu_gem_va args = {};
  args.handle = handle;
  args.operation = operation;
  args.flags = static_cast<uint32_t>(flags);
  args.va_address = va;
  args.offset_in_bo = offset;
  args.map_size = size;
  return command(DRM_AMDGPU_GEM_VA, &args, sizeof(args), "cannot change a GPU mapping");
}

Result<std::vector<std::string>> list_render_nodes() {
  std::vector<unsigned> minors;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/dev/dri"), closedir);
  if (!directory) return Error::system("cannot read /dev/dri");
  while (const dirent* entry = readdir(directory.get())) {
    unsigned minor = 0;
    if (sscanf(entry->d_name, "renderD%u", &minor) == 1) minors.push_back(minor);
  }
  std::ranges::sort(minors);
  std::vector<std::string> paths;
  for (const unsigned minor : minors) {
    const std::string path = amdgpu_criu::formatted("/dev/dri/renderD{}", minor);
    const auto fd = Fd::open(path.c_str(), O_RDWR);
    if (!fd.ok() && fd.error().code() == EPERM) continue;  // the device rules of a job or container
    if (!fd.ok() && fd.error().code() == ENOENT) continue;  // a partition that is off
    if (!fd.ok()) return fd.error();
    const std::unique_ptr<drmVersion, void (*)(drmVersionPtr)> version(drmGetVersion(fd->get()),
                                                                       drmFreeVersion);
    if (version && strcmp(version->name, "amdgpu") == 0) paths.push_back(path);
  }
  return paths;
}

Result<VaRange> VaRange::reserve(const RenderDevice& device, uint64_t size) {
  VaRange range;
  amdgpu_va_handle handle = nullptr;
  TRY(checked(amdgpu_va_range_alloc(device.get(), amdgpu_gpu_va_range_general, size, kGpuPage, 0,
                                    &range.start_, &handle, 0),
              "cannot reserve GPU addresses"));
  range.range_.reset(handle);
  return range;
}

Result<RenderBo> RenderBo::adopt(const RenderDevice& device, amdgpu_bo_handle handle) {
  RenderBo bo(device);
  bo.bo_ = handle;
  amdgpu_bo_info info = {};
  TRY(checked(amdgpu_bo_query_info(handle, &info), "cannot query a BO"));
  bo.size_ = info.alloc_size;
  TRY(checked(amdgpu_bo_export(handle, amdgpu_bo_handle_type_kms, &bo.handle_),
              "cannot get a GEM handle"));
  return bo;
}

Result<RenderBo> RenderBo::create(const RenderDevice& device, const RenderBoSpec& spec) {
  amdgpu_bo_alloc_request request = {};
  request.alloc_size = spec.size;
  request.phys_alignment = spec.alignment;
  request.preferred_heap = spec.domains;
  request.flags = spec.flags;
  amdgpu_bo_handle handle = nullptr;
  TRY(checked(amdgpu_bo_alloc(device.get(), &request, &handle),
              amdgpu_criu::formatted("cannot allocate {} bytes of {}", spec.size, spec.label)));
  return adopt(device, handle);
}

Result<RenderBo> RenderBo::create_userptr(const RenderDevice& device, uint64_t size,
                                          uint32_t flags) {
  RenderBo bo(device);
  bo.cpu_ = TRY(Mapping::map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS));
  bo.size_ = size;
  drm_amdgpu_gem_userptr args = {};
  args.addr = address_of(bo.cpu_.data());
  args.size = size;
  args.flags = flags;
  TRY(device.command(DRM_AMDGPU_GEM_USERPTR, &args, sizeof(args), "cannot create a userptr BO"));
  bo.handle_ = args.handle;
  return bo;
}

Result<RenderBo> RenderBo::import(const RenderDevice& device, const Fd& dmabuf) {
  amdgpu_bo_import_result result = {};
  TRY(checked(amdgpu_bo_import(device.get(), amdgpu_bo_handle_type_dma_buf_fd,
                               static_cast<uint32_t>(dmabuf.get()), &result),
              "cannot import a dma-buf"));
  return adopt(device, result.buf_handle);
}

RenderBo::RenderBo(RenderBo&& other) noexcept
    : device_(other.device_),
      bo_(std::exchange(other.bo_, nullptr)),
      handle_(std::exchange(other.handle_, 0)),
      size_(other.size_),
      range_(std::move(other.range_)),
      mapped_(std::exchange(other.mapped_, false)),
      cpu_(std::move(other.cpu_)) {}

RenderBo::~RenderBo() {
  if (mapped_) (void)device_->change_map(handle_, AMDGPU_VA_OP_UNMAP, va(), 0, size_);
  if (bo_) {
    amdgpu_bo_free(bo_);
  } else if (handle_) {
    drm_gem_close args = {handle_, 0};
    (void)device_->call(DRM_IOCTL_GEM_CLOSE, &args, "closing a GEM handle");
  }
}

Status RenderBo::map_for_gpu() {
  range_ = TRY(VaRange::reserve(*device_, size_));
  TRY(device_->change_map(handle_, AMDGPU_VA_OP_MAP, va(), 0, size_));
  mapped_ = true;
  return {};
}

Result<uint64_t> RenderBo::mmap_offset() const {
  drm_amdgpu_gem_mmap args = {};
  args.in.handle = handle_;
  TRY(device_->command(DRM_AMDGPU_GEM_MMAP, &args, sizeof(args), "cannot map a BO for the CPU"));
  return args.out.addr_ptr;
}

Status RenderBo::map_for_cpu() {
  cpu_ = TRY(Mapping::map(size_, PROT_READ | PROT_WRITE, MAP_SHARED, device_->fd(),
                          static_cast<off_t>(TRY(mmap_offset()))));
  return {};
}

Result<Fd> RenderBo::export_dmabuf() const {
  int fd = -1;
  TRY(checked(drmPrimeHandleToFD(device_->fd(), handle_, DRM_CLOEXEC | DRM_RDWR, &fd) ? -errno : 0,
              "cannot export a BO"));
  return Fd(fd);
}

Result<RenderContext> RenderContext::create(const RenderDevice& device, int priority) {
  RenderContext context;
  amdgpu_context_handle handle = nullptr;
  TRY(checked(amdgpu_cs_ctx_create2(device.get(), static_cast<uint32_t>(priority), &handle),
              "cannot create a context"));
  context.device_ = &device;
  context.context_.reset(handle);
  return context;
}

amdgpu_cs_fence RenderContext::named(const RenderFence& fence) const {
  amdgpu_cs_fence named = {};
  named.context = context_.get();
  named.ip_type = fence.ip;
  named.ring = fence.ring;
  named.fence = fence.number;
  return named;
}

namespace {

// The chunks of one submission; they point into it and into memory of their own.
class Chunks {
 public:
  explicit Chunks(const Submission& submission) {
    ib_.va_start = submission.ib;
    ib_.ib_bytes = submission.ib_bytes;
    ib_.ip_type = submission.ip;
    ib_.ring = submission.ring;
    add(AMDGPU_CHUNK_ID_IB, &ib_, sizeof(ib_));
    add_handles(submission.handles);
    add_points(submission.wait, AMDGPU_CHUNK_ID_SYNCOBJ_IN, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT,
               wait_);
    add_points(submission.signal, AMDGPU_CHUNK_ID_SYNCOBJ_OUT,
               AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, signal_);
  }
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  void add_dependencies(std::vector<drm_amdgpu_cs_chunk_dep> dependencies) {
    dependencies_ = std::move(dependencies);
    add(AMDGPU_CHUNK_ID_DEPENDENCIES, dependencies_.data(),
        dependencies_.size() * sizeof(dependencies_[0]));
  }
  std::span<drm_amdgpu_cs_chunk> get() { return chunks_; }

 private:
  struct Points {
    std::vector<drm_amdgpu_cs_chunk_sem> binary;
    std::vector<drm_amdgpu_cs_chunk_syncobj> timeline;
  };

  void add(uint32_t id, const void* data, size_t bytes) {
    if (bytes) chunks_.push_back({id, static_cast<uint32_t>(bytes / 4), address_of(data)});
  }
  void add_handles(std::span<const uint32_t> handles) {
    if (handles.empty()) return;
    for (const uint32_t handle : handles) entries_.push_back({handle, 0});
    list_.operation = ~0u;
    list_.list_handle = ~0u;
    list_.bo_number = static_cast<uint32_t>(entries_.size());
    list_.bo_info_size = sizeof(drm_amdgpu_bo_list_entry);
    list_.bo_info_ptr = address_of(entries_.data());
    add(AMDGPU_CHUNK_ID_BO_HANDLES, &list_, sizeof(list_));
  }
  void add_points(std::span<const SyncPoint> points, uint32_t binary_id, uint32_t timeline_id,
                  Points& out) {
    for (const SyncPoint& point : points) {
      if (point.point)
        out.timeline.push_back(
            {point.syncobj, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, point.point});
      else
        out.binary.push_back({point.syncobj});
    }
    add(binary_id, out.binary.data(), out.binary.size() * sizeof(drm_amdgpu_cs_chunk_sem));
    add(timeline_id, out.timeline.data(),
        out.timeline.size() * sizeof(drm_amdgpu_cs_chunk_syncobj));
  }

  drm_amdgpu_cs_chunk_ib ib_ = {};
  drm_amdgpu_bo_list_in list_ = {};
  std::vector<drm_amdgpu_bo_list_entry> entries_;
  std::vector<drm_amdgpu_cs_chunk_dep> dependencies_;
  Points wait_, signal_;
  std::vector<drm_amdgpu_cs_chunk> chunks_;
};

}  // namespace

Result<RenderFence> RenderContext::submit(const Submission& submission) const {
  Chunks chunks(submission);
  std::vector<drm_amdgpu_cs_chunk_dep> dependencies;
  for (const Dependency& dependency : submission.after) {
    amdgpu_cs_fence fence = dependency.context->named(dependency.fence);
    amdgpu_cs_chunk_fence_to_dep(&fence, &dependencies.emplace_back());
  }
  chunks.add_dependencies(std::move(dependencies));
  RenderFence fence = {submission.ip, submission.ring, 0};
  TRY(checked(amdgpu_cs_submit_raw2(device_->get(), context_.get(), submission.bo_list,
                                    static_cast<int>(chunks.get().size()), chunks.get().data(),
                                    &fence.number),
              "cannot submit"));
  return fence;
}

// Polls: a wait in the kernel ends at a time of the machine's clock, but a restored process has a
// time namespace.
Result<bool> RenderContext::is_done(const RenderFence& fence) const {
  amdgpu_cs_fence query = named(fence);
  uint32_t done = 0;
  TRY(checked(
      amdgpu_cs_query_fence_status(&query, 0, AMDGPU_QUERY_FENCE_TIMEOUT_IS_ABSOLUTE, &done),
      amdgpu_criu::formatted("cannot query fence {} of engine {}", fence.number, fence.ip)));
  return done != 0;
}

Status RenderContext::wait(const RenderFence& fence, unsigned timeout_ms) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (auto pause = kShortestPoll; !TRY(is_done(fence));
       pause = std::min(2 * pause, kLongestPoll)) {
    if (std::chrono::steady_clock::now() >= end)
      return Error::of(ETIMEDOUT, "fence {} of engine {} is not signaled after {} s", fence.number,
                       fence.ip, timeout_ms / 1000);
    sleep_for(pause);
  }
  return {};
}

Status RenderContext::check_alive() const {
  uint64_t flags = 0;
  TRY(checked(amdgpu_cs_query_reset_state2(context_.get(), &flags), "cannot query a context"));
  if (flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST |
               AMDGPU_CTX_QUERY2_FLAGS_GUILTY))
    return Error::of(ENODATA, "context {}: the GPU was reset, state {:#x}", id(), flags);
  return {};
}

uint32_t RenderContext::id() const {
  amdgpu_cs_fence fence = named({});
  drm_amdgpu_cs_chunk_dep dependency = {};
  amdgpu_cs_chunk_fence_to_dep(&fence, &dependency);
  return dependency.ctx_id;
}

Result<SyncObject> SyncObject::create(const RenderDevice& device, bool signaled) {
  uint32_t handle = 0;
  TRY(checked(
      amdgpu_cs_create_syncobj2(device.get(), signaled ? DRM_SYNCOBJ_CREATE_SIGNALED : 0, &handle),
      "cannot create a syncobj"));
  return SyncObject(device, handle);
}

Result<SyncObject> SyncObject::import(const RenderDevice& device, const Fd& fd) {
  uint32_t handle = 0;
  TRY(checked(amdgpu_cs_import_syncobj(device.get(), fd.get(), &handle),
              "cannot import a syncobj"));
  return SyncObject(device, handle);
}

SyncObject::~SyncObject() {
  if (handle_) amdgpu_cs_destroy_syncobj(device_->get(), handle_);
}

Result<Fd> SyncObject::export_fd() const {
  int fd = -1;
  TRY(checked(amdgpu_cs_export_syncobj(device_->get(), handle_, &fd), "cannot export a syncobj"));
  return Fd(fd);
}

Status SyncObject::signal() const {
  return checked(amdgpu_cs_syncobj_signal(device_->get(), &handle_, 1), "cannot signal a syncobj");
}

Status SyncObject::signal(uint64_t point) const {
  return checked(amdgpu_cs_syncobj_timeline_signal(device_->get(), &handle_, &point, 1),
                 "cannot signal a point");
}

Status SyncObject::reset() const {
  return checked(amdgpu_cs_syncobj_reset(device_->get(), &handle_, 1), "cannot reset a syncobj");
}

Result<uint64_t> SyncObject::last_point() const {
  uint64_t point = 0;
  uint32_t handle = handle_;
  TRY(checked(amdgpu_cs_syncobj_query(device_->get(), &handle, &point, 1),
              "cannot query a syncobj"));
  return point;
}

Result<bool> SyncObject::is_signaled(uint64_t point) const {
  uint32_t handle = handle_;
  const int result =
      point ? amdgpu_cs_syncobj_timeline_wait(device_->get(), &handle, &point, 1, 0,
                                              DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, nullptr)
            : amdgpu_cs_syncobj_wait(device_->get(), &handle, 1, 0,
                                     DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, nullptr);
  if (result == -ETIME) return false;
  TRY(checked(result, "cannot wait for a syncobj"));
  return true;
}

Status SyncObject::wait_forever() const {
  uint32_t handle = handle_;
  return checked(amdgpu_cs_syncobj_wait(device_->get(), &handle, 1, INT64_MAX,
                                        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT, nullptr),
                 "cannot wait for a syncobj");
}

Result<BoList> BoList::create(const RenderDevice& device, std::span<const uint32_t> handles,
                              uint32_t priority) {
  std::vector<drm_amdgpu_bo_list_entry> entries;
  for (const uint32_t handle : handles) entries.push_back({handle, priority});
  uint32_t list = 0;
  TRY(checked(amdgpu_bo_list_create_raw(device.get(), static_cast<uint32_t>(entries.size()),
                                        entries.data(), &list),
              "cannot create a BO list"));
  return BoList(device, list);
}

BoList::~BoList() {
  if (handle_) amdgpu_bo_list_destroy_raw(device_->get(), handle_);
}

}  // namespace e2e
